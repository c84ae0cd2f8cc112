"""Bytes that are not UTF-8: names of files may have them; elsewhere the call is wrong, at once."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from taskq import Campaign, CampaignSpec, Client, Handler, Seed, TaskqError, connect
from taskq.model.errors import UsageError
from tests.helpers.command_line import PROGRAM, TIMEOUT_S, CommandLine

pytestmark = pytest.mark.thorough

AGENT = PROGRAM.with_name("taskq-agent")
FOREIGN = os.fsdecode(b"caf\xe9")  # Latin-1


def run(taskq: CommandLine, *words: object, program: Path = PROGRAM) -> tuple[int, str, str]:
    """Run a command; return exit code, standard output and standard error."""
    done = subprocess.run(
        [str(program), *map(str, words)],
        env=taskq.environment | {"TASKQ_TOKEN": "tqe_x"},
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize(
    "words",
    [
        ["tasks", "/c", "--key", FOREIGN],
        ["campaign", "create", "/d", "--description", FOREIGN],
        ["campaign", "create", "/d", "--", "dock", FOREIGN],
        ["agent", "run", "--until-empty", "--campaign", "/c", "--name", FOREIGN],
        ["agents", "drain", "--site", FOREIGN],
        ["token", "create", FOREIGN, "--kind", "site", "--campaign", "/c"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_words_that_are_not_utf_8_are_a_wrong_call(
    taskq: CommandLine, campaign: Campaign, words: list[str]
) -> None:
    """One line that shows the bytes; nothing was done."""
    code, out, error = run(taskq, *words)
    assert (code, out, error.count("\n")) == (2, "", 1), error
    assert "caf\\xe9" in error
    assert "UTF-8" in error
    assert campaign.path


@pytest.mark.parametrize(
    "words",
    [
        *(["run", "--gateway", "https://localhost:1", option, FOREIGN] for option in ("--name",)),
        ["run", "--gateway", "https://localhost:1", "--site", FOREIGN],
        ["run", "--gateway", "https://localhost:1", "--offer", FOREIGN],
        ["run", "--gateway", "https://localhost:1", "--campaign", f"/{FOREIGN}"],
        ["try", "--handler", f'{{"kind": "command", "argv": ["{FOREIGN}"]}}'],
    ],
    ids=lambda words: " ".join([words[0], words[-2]]),
)
def test_agent_refuses_such_words_at_once(taskq: CommandLine, words: list[str]) -> None:
    """Before it has spoken with anybody."""
    code, out, error = run(taskq, *words, program=AGENT)
    assert (code, out) == (2, "")
    assert "caf\\xe9" in error
    assert "Traceback" not in error


def test_variables_that_are_not_utf_8_are_named(taskq: CommandLine) -> None:
    """The address and the folder of the server are text for PostgreSQL's clients."""
    taskq.environment["TASKQ_DSN"] = f"postgresql://{FOREIGN}@localhost/queue"
    code, _, error = run(taskq, "status")
    assert (code, "UTF-8" in error, error.count("\n")) == (2, True, 1), error
    # Not with a piece of what may be a password.
    code, _, error = run(taskq, "status", "--dsn", taskq.environment["TASKQ_DSN"])
    assert (code, "UTF-8" in error, "caf" in error) == (2, True, False), error
    del taskq.environment["TASKQ_DSN"]
    taskq.environment["TASKQ_HOME"] = f"/nonexistent/{FOREIGN}"
    code, _, error = run(taskq, "status")
    assert (code, "TASKQ_HOME" in error, error.count("\n")) == (2, True, 1), error


def test_library_translates_text_that_is_not_unicode(queue: Client, dsn: str) -> None:
    """A program that passes such text on gets the error for a wrong call."""
    campaign = queue.create_campaign("/c")
    with pytest.raises(UsageError, match="Unicode"):
        campaign.attempts(FOREIGN)
    with pytest.raises(TaskqError):
        connect(f"{dsn}?application_name={FOREIGN}")


def test_files_may_have_any_name(taskq: CommandLine, queue: Client, tmp_path: Path) -> None:
    """Tasks are seeded from them, results and tokens written to them, tasks run in them."""
    folder = tmp_path / FOREIGN
    folder.mkdir()
    (folder / f"{FOREIGN}.jsonl").write_text('{"n": 20}\n{"n": 21}\n')
    (folder / "work_in_there.py").write_text(
        "def double(payload, shared): return {'n': payload['n'] * 2}"
    )
    target = Handler("python", target="work_in_there:double")
    queue.create_campaign(CampaignSpec("/c", handler=target))
    done = [run(taskq, "seed", "/c", folder / f"{FOREIGN}.jsonl")]
    places = [
        *("--path", folder, "--scratch", folder, "--spool", folder / "spool"),
        *("--cache", folder / "cache"),
    ]
    done += [run(taskq, "agent", "run", "--campaign", "/c", "--until-empty", "--quiet", *places)]
    done += [run(taskq, "export", "/c", "--to", folder / f"{FOREIGN}.csv")]
    done += [
        run(
            taskq,
            "token",
            "create",
            "t",
            "--kind",
            "site",
            "--campaign",
            "/c",
            "--to",
            folder / "t",
        )
    ]
    assert [code for code, _, _ in done] == [0] * 4, done
    assert [result.result for result in queue.campaign("/c").results()] == [{"n": 40}, {"n": 42}]
    assert "40" in (folder / f"{FOREIGN}.csv").read_text()
    assert (folder / "t").read_text().startswith("tqe_")
    words = ["--handler", json.dumps(target.to_json()), "--payload", '{"n": 4}', *places[:4]]
    code, out, error = run(taskq, "try", *words, program=AGENT)
    assert (code, json.loads(out)["result"]) == (0, {"n": 8}), error


def test_input_is_named_in_unicode(taskq: CommandLine, queue: Client, tmp_path: Path) -> None:
    """Its file may have any name, but tasks call it by one that JSON can hold."""
    file = tmp_path / FOREIGN
    file.write_text("content")
    queue.create_campaign("/c")
    code, _, error = run(taskq, "input", "add", "/c", file)
    assert (code, "--name" in error) == (2, True), error
    assert run(taskq, "input", "add", "/c", file, "--name", "coffee")[0] == 0
    assert [*queue.campaign("/c").inputs()] == ["coffee"]


def test_keys_are_utf_8_in_any_locale(taskq: CommandLine, campaign: Campaign) -> None:
    """Also where Python takes the locale for ASCII."""
    campaign.seed([Seed({"x": 1}, "caf\u00e9")])
    done = subprocess.run(
        [str(PROGRAM), "tasks", "/c", "--key", "caf\u00e9"],
        env=taskq.environment | {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, "caf\u00e9" in done.stdout.decode()) == (0, True), done.stderr
