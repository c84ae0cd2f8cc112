"""`taskq pilot`: what an operator types and reads, and a campaign that local jobs carry out."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskq import Client
from tests.helpers.audit import assert_audit_is_clean
from tests.helpers.command_line import CommandLine
from tests.helpers.waiting import wait_until


@pytest.fixture
def taskq(dsn: str) -> CommandLine:
    """Give the command line on a queue with the campaign /c."""
    command_line = CommandLine(dsn)
    command_line.out("campaign", "create", "/c", "--", "sleep", "{s}")
    return command_line


@pytest.fixture
def token(tmp_path: Path) -> Path:
    """Give the file of a token."""
    file = tmp_path / "site.token"
    file.touch(mode=0o600)
    file.write_text("tqe_secret\n")
    return file


def test_pilot_is_added_looked_at_and_removed(taskq: CommandLine, tmp_path: Path) -> None:
    """Each step says what is the case, in words and in JSON."""
    added = taskq(
        *("pilots", "add", "slurm", "hpc", "--campaign", "/c", "--cores", 32, "--folder", tmp_path),
        *("--time-limit", "12h", "--max-jobs", 200, "--partition", "long"),
    )
    assert added.stdout == "The pilot hpc is added.\n"
    assert added.stderr == "`taskq pilot run` submits its jobs.\n"
    (listed,) = taskq.json("pilots")
    assert (listed["name"], listed["status"], listed["path"]) == ("hpc", "active", "/c")
    assert listed["settings"]["time_limit"] == 43_200
    shown = taskq.out("pilots", "show", "hpc")
    assert re.search(r"^partition +long$", shown, re.MULTILINE)
    explained = taskq.out("pilots", "explain", "hpc").splitlines()
    assert explained[0] == "0 tasks waiting for agents like these, 0 are worked on."
    assert explained[-1] == ("No loop has looked at it yet: `taskq pilot run` submits its jobs.")
    assert taskq.out("pilots", "pause", "hpc") == "The pilot hpc is paused.\n"
    assert "It is paused, so nothing is submitted." in taskq.out("pilots", "explain", "hpc")
    assert taskq.out("pilots", "resume", "hpc") == "The pilot hpc is active.\n"
    assert taskq("pilots", "log", "hpc").stderr == "There are none.\n"
    assert taskq.refused("pilots", "log", "hpc", 1)[0] == 66
    assert taskq.refused("pilots", "rm", "hpc")[0] == 2
    assert taskq.out("pilots", "rm", "hpc", "--yes") == "The pilot hpc is removed.\n"
    assert taskq.refused("pilots", "show", "hpc") == (
        66,
        "no pilot hpc; `taskq pilot list` shows what there is",
    )


def test_dry_run_prints_the_very_script_and_stores_nothing(
    taskq: CommandLine, tmp_path: Path, token: Path
) -> None:
    """Without the token, with each value quoted."""
    words = ["pilots", "add", "slurm", "hpc", "--campaign", "/c", "--folder", str(tmp_path)]
    words += ["--gateway", "https://gw", "--token-file", str(token), "--site", "my site"]
    script = taskq.out(*words, "--dry-run")
    assert script.startswith("#!/bin/sh\n#SBATCH --job-name=taskq-hpc-00000000-1\n")
    assert f"--token-file {token} " in script
    assert "--site 'my site' " in script
    assert "tqe_secret" not in script
    assert taskq.json("pilots") == []
    taskq.out(*words)
    key = taskq.json("pilots")[0]["key"]
    assert taskq.out("pilots", "show", "hpc", "--dry-run") == script.replace("00000000", key)


def test_setup_lines_come_from_a_file(taskq: CommandLine, tmp_path: Path) -> None:
    """They are the only shell in a script that taskq does not write."""
    (tmp_path / "setup").write_text("module load python\n")
    words = ["pilots", "add", "slurm", "hpc", "--campaign", "/c", "--folder", str(tmp_path)]
    script = taskq.out(*words, "--setup", tmp_path / "setup", "--dry-run")
    assert script.startswith("#!/bin/bash -l\n")
    assert "\nset -e\nmodule load python\nset +e\n" in script


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (
            ["slurm"],
            2,
            "kubernetes, local, ssh), NAME and --campaign; or --file",
        ),
        (
            ["condor", "x", "--campaign", "/c"],
            2,
            "no driver 'condor'; there are slurm, pbs, htcondor, kubernetes, local, ssh",
        ),
        (["slurm", "X", "--campaign", "/c"], 2, "'X' cannot be a pilot's name"),
        (["slurm", "x", "--campaign", "/d"], 66, "no campaign /d"),
        (
            ["slurm", "x", "--campaign", "/c", "--time-limit", "soon"],
            2,
            "must be a time, such as 90s, 30m or 2h",
        ),
        (["slurm", "x", "--campaign", "/c", "--option", "-p x"], 2, "must read --name=value"),
        (["slurm", "x", "--campaign", "/c", "--token-file", "gone"], 66, "gone: no such file"),
        (["ssh", "x", "--campaign", "/c"], 2, "the driver ssh needs hosts (--host)"),
        (["--file", "gone.toml"], 66, "gone.toml: No such file or directory"),
        (["--file", "x.toml", "--cores", "3"], 2, "--file replaces DRIVER"),
    ],
)
def test_wrong_calls_say_what_is_wrong(
    taskq: CommandLine, words: list[str], code: int, said: str
) -> None:
    """And nothing is stored."""
    exit_code, error = taskq.refused("pilots", "add", *words)
    assert exit_code == code
    assert said in error
    assert taskq.json("pilots") == []


def test_file_adds_its_pilots_or_none(taskq: CommandLine, tmp_path: Path) -> None:
    """And changes them later."""
    file = tmp_path / "pilots.toml"
    name = f'[pilots.a]\ndriver = "local"\ncampaign = "/c"\nfolder = "{tmp_path}"\n'
    file.write_text(name + '[pilots.b]\ndriver = "local"\ncampaign = "/gone"\n')
    assert taskq.refused("pilots", "add", "--file", file)[0] == 66
    assert taskq.json("pilots") == []
    file.write_text(name)
    taskq.out("pilots", "add", "--file", file)
    assert taskq.refused("pilots", "add", "--file", file)[0] == 3
    file.write_text(name + "cores = 7\n")
    assert taskq.out("pilots", "add", "--file", file, "--replace") == "The pilot a is changed.\n"
    assert taskq.json("pilots")[0]["settings"]["cores"] == 7


def test_loop_that_cannot_submit_what_was_named_says_so(
    taskq: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, instead of waiting for ever."""
    taskq.out("pilots", "add", "slurm", "hpc", "--campaign", "/c", "--folder", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    code, said = taskq.refused("pilots", "run", "hpc", "--once")
    assert code == 69
    assert said.startswith("the pilot hpc: sbatch is not on PATH here")


@pytest.fixture
def local(taskq: CommandLine, tmp_path: Path) -> Iterator[CommandLine]:
    """Give a queue with a pilot of this machine for /c, and ten tasks; end its agents."""
    taskq.out("seed", "/c", "--sweep", "s=0.1,0.2", "--sweep", "n=1:5")
    taskq.out(
        *("pilots", "add", "local", "here", "--campaign", "/c", "--cores", 2, "--max-jobs", 2),
        *("--idle-timeout", "2s", "--least-work", "1s", "--folder", tmp_path / "jobs"),
    )
    yield taskq
    taskq.out("agents", "drain", "--campaign", "/")


@pytest.mark.thorough
def test_local_jobs_bring_a_campaign_to_its_end(
    local: CommandLine, queue: Client, tmp_path: Path
) -> None:
    """Nobody starts an agent; the jobs come with the tasks and go after them.

    Two loops run at once: one of them acts, and no job is there twice.
    """
    words = ("pilots", "run", "--interval", "0.2")
    with local.process(*words) as loop, local.process(*words) as second:
        wait_until(
            lambda: queue.campaign("/c").status().done == 10,
            timeout_s=60,
            on_timeout=lambda: local.out("pilots", "explain", "here"),
        )
        wait_until(
            lambda: local.json("pilots")[0]["serving"] == 0,
            timeout_s=60,
            on_timeout=lambda: local.out("pilots", "log", "here"),
        )
        for process in (loop, second):
            process.terminate()
            assert process.wait(60) == 0
    jobs = local.json("pilots", "log", "here")
    assert {job["outcome"] for job in jobs} == {"served"}
    processes = [file.read_text().split()[0] for file in tmp_path.glob("jobs/*.job/process")]
    assert len(processes) == len({*processes}) == len(jobs)
    assert {job["exit_code"] for job in jobs} == {0}
    assert {job["left_why"] for job in jobs} == {"it has had no task for 2 s"}
    assert (
        "leaves, because it has had no task for 2 s"
        in (tmp_path / "jobs" / f"{jobs[0]['name']}.out").read_text()
    )
    assert stat.S_IMODE((tmp_path / "jobs").stat().st_mode) == 0o700
    assert_audit_is_clean(queue, "/c")


def test_dry_run_of_the_loop_says_what_it_would_do(local: CommandLine, tmp_path: Path) -> None:
    """And does nothing."""
    said = local.out("pilots", "run", "--dry-run")
    assert "# here: So 2 jobs submitted now." in said
    assert "--name taskq-here-" in said
    assert not (tmp_path / "jobs").exists()
