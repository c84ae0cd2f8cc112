"""The examples do what their READMEs say."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from taskq import Client
from tests.helpers.command_line import PROGRAM, CommandLine
from tests.helpers.paths import ROOT
from tests.helpers.psql import psql_program
from tests.helpers.waiting import wait_until

EXAMPLES = ROOT / "examples"


@pytest.fixture
def command(dsn: str) -> CommandLine:
    """Give the command line of a fresh queue."""
    return CommandLine(dsn)


def check(example: str, results: Path) -> subprocess.CompletedProcess[str]:
    """Run an example's check on exported results."""
    argv = [sys.executable, str(EXAMPLES / example / "check.py"), str(results)]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def work(command: CommandLine, example: str, campaign: str) -> None:
    """Let an agent do all that a campaign has."""
    words = ["agent", "run", "--campaign", campaign, "--slots", "2", "--until-empty", "--quiet"]
    with command.process(*words, "--path", EXAMPLES / example) as agent:
        _, said = agent.communicate(timeout=120)
        assert agent.returncode == 0, said


@pytest.mark.thorough
def test_ising_sweep_agrees_with_onsager(command: CommandLine, tmp_path: Path) -> None:
    """The energies of all temperatures are those of the exact solution."""
    command.out("campaign", "create", "--campaign-file", EXAMPLES / "ising/campaign.toml")
    sweep = ["--sweep", "seed=1:2", "--sweep", "temperature=1.5,2.0,2.6,3.5"]
    command.out("seed", "/demo/ising", *sweep)
    work(command, "ising", "/demo/ising")
    results = tmp_path / "results.jsonl"
    command.out("export", "/demo/ising", "--format", "jsonl", "--to", results)
    verdict = check("ising", results)
    assert verdict.returncode == 0, verdict.stdout + verdict.stderr


@pytest.mark.thorough
def test_ising_goes_on_from_checkpoints_to_the_same_result(
    command: CommandLine, tmp_path: Path
) -> None:
    """Four attempts find the energy that a single one finds, to the last digit."""
    command.out("campaign", "create", "--campaign-file", EXAMPLES / "ising/campaign.toml")
    command.out("campaign", "change", "/demo/ising", "--param", "sweeps=300")
    command.out("campaign", "create", "/demo/whole", "--python", "ising:run")
    command.out("campaign", "change", "/demo/whole", "--param", "sweeps=300", "--param", "side=32")
    command.out("campaign", "change", "/demo/ising", "--param", "sweeps_per_attempt=110")
    energies = []
    for path in ("/demo/ising", "/demo/whole"):
        command.out("seed", path, "--sweep", "seed=1:1", "--sweep", "temperature=2.6,3.5")
        work(command, "ising", path)
        results = tmp_path / "results.jsonl"
        command.out("export", path, "--format", "jsonl", "--to", results)
        found = [json.loads(line) for line in results.read_text().splitlines()]
        energies.append(sorted(task["result"]["energy"] for task in found))
        keys = [task["key"] for task in found]
    assert energies[0] == energies[1]
    assert len(set(energies[0])) == 2
    assert command.out("history", "/demo/ising", keys[0]).count("continued") == 3


def of_readme(language: str) -> str:
    """Return the one block of a language in the README."""
    page = (ROOT / "README.md").read_text()
    (block,) = re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return block


DOCK = """#!/bin/sh
# Scores a molecule by its length, where there is a receptor; nitrogen is no molecule.
test -s "$2" || exit 69
test "$1" != N || exit 65
echo docking "$1"
echo "{\\"score\\": -${#1}}"
"""


@pytest.mark.thorough
def test_campaign_of_the_readme_can_be_pasted_and_ends(
    command: CommandLine, tmp_path: Path
) -> None:
    """As printed, with a program, a receptor and ligands: from the file to the best hits."""
    (tmp_path / "campaign.toml").write_text(of_readme("toml"))
    (tmp_path / "1lf3.pdbqt").write_text("ATOM\n")
    with gzip.open(tmp_path / "ligands.smi.gz", "wt") as ligands:
        ligands.writelines(f"{'C' * n} chain-{n}\n" for n in range(1, 13))
        ligands.write("N nitrogen\n")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "dock.sh").write_text(DOCK)
    (programs / "dock.sh").chmod(0o755)
    path = os.pathsep.join([str(programs), str(PROGRAM.parent), os.environ["PATH"]])
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}

    pasted = subprocess.run(
        ["timeout", "100", "bash", "-e", "-o", "pipefail", "-c", of_readme("sh") + "wait\n"],
        cwd=tmp_path,
        env=command.environment | cache | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert pasted.returncode == 0, pasted.stdout + pasted.stderr
    assert "exit-65" in pasted.stdout
    with (tmp_path / "hits.csv").open(newline="") as hits:
        scores = [float(hit["result.score"]) for hit in csv.DictReader(hits)]
    assert scores == [float(-n) for n in range(12, 0, -1)]


@pytest.mark.thorough
def test_python_of_the_readme_does_its_campaign(command: CommandLine) -> None:
    """As printed, next to an agent as its comment says."""
    program = of_readme("python")
    (words,) = re.findall(r"elsewhere: taskq (.*)", program)
    argv = [sys.executable, "-c", program]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, env=command.environment, **pipes) as submitter:
        wait_until(lambda: command("status", "/ising").exit_code == 0, timeout_s=30)
        with command.process(*words.split(), cwd=ROOT):
            results, errors = submitter.communicate(timeout=120)
    assert (submitter.returncode, errors) == (0, "")
    assert len(results.splitlines()) == 21 * 4


def test_handler_is_tried_as_the_page_about_handlers_says() -> None:
    """The command, as printed."""
    page = (ROOT / "docs/handlers.md").read_text()
    words, _of_a_campaign_file = re.findall(
        r"^taskq-agent (try .*?)^```", page, re.MULTILINE | re.DOTALL
    )
    argv = [sys.executable, "-m", "taskq_agent", *shlex.split(words.replace("\\\n", " "))]
    tried = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert json.loads(tried.stdout)["result"].keys() == {"energy"}


@pytest.mark.thorough
def test_docking_a_ligand_comes_near_the_published_score(
    command: CommandLine, tmp_path: Path
) -> None:
    """A real receptor, a real ligand, real Vina; a campaign that is not complete is not judged."""
    seeds = tmp_path / "seeds.jsonl"
    argv = [sys.executable, str(EXAMPLES / "docking/seeds.py")]
    tasks = [
        json.loads(line)
        for line in subprocess.run(argv, capture_output=True, check=True).stdout.splitlines()
    ]
    assert len(tasks) == 56
    first = next(task for task in tasks if task["target"] == "PDE5A")
    seeds.write_text(json.dumps(first) + "\n")

    command.out("campaign", "create", "--campaign-file", EXAMPLES / "docking/campaign.toml")
    command.out("seed", "/demo/docking", seeds, "--key-field", "name")
    work(command, "docking", "/demo/docking")
    results = tmp_path / "results.jsonl"
    command.out("export", "/demo/docking", "--format", "jsonl", "--to", results)

    (result,) = map(json.loads, results.read_text().splitlines())
    assert result["result"]["score"] == pytest.approx(-6.9, abs=1.0)
    poses = tmp_path / "poses"
    best = ["--best", 1, "--by", "result.score", "--lowest"]
    command.out("fetch", "/demo/docking", *best, "--to", poses)
    (pose,) = poses.glob("*/pose.pdbqt")
    assert "REMARK VINA RESULT" in pose.read_text()

    verdict = check("docking", results)
    assert verdict.returncode == 2
    assert "no score for 13 of 14 pairs" in verdict.stderr


@pytest.mark.parametrize("campaign_file", ["docking/campaign.toml", "docking/library.toml"])
def test_campaign_files_are_well_formed(command: CommandLine, campaign_file: str) -> None:
    """Each can be created as it stands."""
    assert "is created" in command.out(
        "campaign", "create", "--campaign-file", EXAMPLES / campaign_file
    )


def test_agent_written_in_shell_works_with_psql_alone(dsn: str, queue: Client) -> None:
    """It claims, completes and fails tasks in at most 40 lines."""
    script = EXAMPLES / "shell-agent/agent.sh"
    assert len(script.read_text().splitlines()) <= 40
    campaign = queue.create_campaign("/shell")
    campaign.seed({"n": n} for n in range(4))
    parts = conninfo_to_dict(dsn)
    environment = os.environ | {
        "PSQL": str(psql_program()),
        "PGHOST": str(parts["host"]),
        "PGPORT": str(parts["port"]),
        "PGUSER": str(parts["user"]),
        "PGDATABASE": str(parts["dbname"]),
    }
    payload = (
        "import json, sys; n = json.load(sys.stdin)['n']; print(json.dumps({'third': 3 // n}))"
    )
    done = subprocess.run(
        [str(script), "/shell", sys.executable, "-c", payload],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    results = {result.payload["n"]: result.result for result in campaign.results()}
    assert results == {1: {"third": 3}, 2: {"third": 1}, 3: {"third": 1}}
    status = campaign.status()
    assert (status.done, status.delayed) == (3, 1)
    assert [*campaign.failure_classes()] == ["command"]
    assert queue.agents() == []
