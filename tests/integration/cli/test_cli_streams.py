"""Standard streams that are closed, full or read no further: the work is done all the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from taskq import Campaign, CampaignSpec, Client, Handler
from tests.helpers.campaigns import servable
from tests.helpers.command_line import PROGRAM, TIMEOUT_S, CommandLine

pytestmark = pytest.mark.thorough

AGENT = PROGRAM.with_name("taskq-agent")
FULL = "No space left on device"
EVERY_OUTPUT = [
    ["seed", "-h"],
    ["completion", "bash"],
    ["tasks", "/c"],
    ["tasks", "/c", "-o", "json"],
    ["export", "/c", "--format", "parquet"],
    ["status", "/c"],
    ["logs", "/c", "first"],
    ["watch", "/c", "-o", "jsonl"],
]
every_output = pytest.mark.parametrize("words", EVERY_OUTPUT, ids=" ".join)


@pytest.fixture
def ended(queue: Client) -> Campaign:
    """Give a campaign that is through."""
    campaign = servable(queue)
    campaign.submit({"n": 1}, key="first")
    campaign.cancel()
    return campaign


def shell(
    taskq: CommandLine, redirected: str, *words: str, program: Path = PROGRAM
) -> tuple[int, str]:
    """Run a command with streams as a shell redirects them; return exit code and standard error."""
    done = subprocess.run(
        ["bash", "-c", f'set -o pipefail; "$@" {redirected}', "bash", str(program), *words],
        env=taskq.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return done.returncode, done.stderr


@every_output
def test_full_disk_under_the_output_is_one_line(
    taskq: CommandLine, ended: Campaign, words: list[str]
) -> None:
    """Whatever a command writes, and however: the reason, and the code of an I/O error."""
    code, error = shell(taskq, ">/dev/full", *words)
    assert (code, error.count("\n")) == (74, 1), error
    assert FULL in error
    assert ended.path


@every_output
def test_closed_output_is_no_error(taskq: CommandLine, ended: Campaign, words: list[str]) -> None:
    """Anyone who closes the standard streams wants none of them."""
    assert shell(taskq, ">&-", *words) == (0, "")
    assert ended.path


@every_output
def test_output_that_nobody_reads_is_no_error(
    taskq: CommandLine, ended: Campaign, words: list[str]
) -> None:
    """As with `| true`: quiet, also where the exit code of each part of a pipe counts."""
    assert shell(taskq, "| true", *words) == (0, "")
    assert ended.path


def test_command_whose_output_cannot_be_written_does_its_work_and_exits_with_74(
    taskq: CommandLine, queue: Client
) -> None:
    """Its error says that the command itself has ended."""
    create = ["campaign", "create", "/made", "--", "true"]
    code, error = shell(taskq, ">/dev/full", *create)
    assert (code, "has ended, but" in error) == (74, True), error
    assert queue.campaign("/made").status().total == 0
    for place, redirected in enumerate((">/dev/full", ">&-", "| true")):
        shell(taskq, redirected, "seed", "/made", "--sweep", f"n={place}:{place}")
    assert queue.campaign("/made").status().total == 3


@pytest.mark.parametrize("redirected", ["2>/dev/full", "2>&-", "2> >(true)"])
def test_seeding_continues_with_a_closed_standard_error(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path, redirected: str
) -> None:
    """No task depends on whether the report of bad lines can be written."""
    lines = [f'{{"n": {n}}}' if n % 10 else "bad" for n in range(2_000)]
    (tmp_path / "tasks.jsonl").write_text("\n".join(lines))
    words = ["seed", "/c", str(tmp_path / "tasks.jsonl"), "--on-error", "skip"]
    assert shell(taskq, redirected, *words)[0] == 0
    assert campaign.status().total == 1_800


def test_on_a_terminal_lines_come_in_their_order(taskq: CommandLine, campaign: Campaign) -> None:
    """A message on standard error comes after the line that it is about."""
    with taskq.terminal("retry", campaign.path, "--error-class", "none") as terminal:
        assert terminal.end() == 0
    first, _, then = terminal.seen.partition("\n")
    assert "0 tasks" in first
    assert "No such task" in then


@pytest.mark.parametrize("redirected", ["2>/dev/full", "2>&-"])
def test_exit_code_of_an_error_does_not_depend_on_standard_error(
    taskq: CommandLine, campaign: Campaign, redirected: str
) -> None:
    """A script that throws messages away sees what went wrong."""
    assert shell(taskq, redirected, "nonsense")[0] == 2
    assert shell(taskq, redirected, "status", f"{campaign.path}/none")[0] == 66


def test_agent_keeps_its_code_where_its_summary_is_not_read(
    taskq: CommandLine, queue: Client
) -> None:
    """What the batch system sees is how the agent ended; its tasks are done in any case."""
    for redirected, code in ((">/dev/full", 74), (">&-", 0), ("| true", 0)):
        servable(queue, f"/c{code}{len(redirected)}").submit({"n": 1})
        run = ["agent", "run", "--campaign", "/", "--until-empty", "--quiet"]
        assert shell(taskq, redirected, *run)[0] == code
        assert queue.campaign("/").status().unfinished == 0


@pytest.mark.parametrize(
    "words",
    [
        ["-h"],
        ["run", "-h"],
        ["version"],
        ["try", "--handler", '{"kind": "command", "argv": ["true"]}'],
    ],
    ids=lambda words: words[0] if len(words) < 3 else "try",
)
def test_agent_of_one_file_does_alike(taskq: CommandLine, words: list[str]) -> None:
    """Full, closed and unread, the same as for the campaign manager's commands."""
    code, error = shell(taskq, ">/dev/full", *words, program=AGENT)
    assert (code, error.count("\n"), FULL in error) == (74, 1, True), error
    for redirected in (">&-", "| true"):
        assert shell(taskq, redirected, *words, program=AGENT) == (0, "")


def test_verdict_on_a_payload_survives_a_full_disk(taskq: CommandLine) -> None:
    """The exit code says how the attempt ended, whatever becomes of the rest."""
    handler = json.dumps({"kind": "command", "argv": [sys.executable, "-c", "exit(65)"]})
    for redirected in (">/dev/full", ">&-", "| true"):
        assert shell(taskq, redirected, "try", "--handler", handler, program=AGENT)[0] == 65


def test_processes_of_an_agent_do_not_inherit_its_connections(
    taskq: CommandLine, queue: Client, tmp_path: Path
) -> None:
    """A closed stream is not handed to the next file or connection that is opened."""
    # Braces are doubled, as in any argument of a handler.
    program = (
        "import os; its = f'/proc/{{os.getppid()}}/fd/'; "
        "print(*(os.readlink(its + n) for n in '012'))"
    )
    queue.create_campaign(
        CampaignSpec("/c", handler=Handler("command", argv=(sys.executable, "-c", program)))
    ).submit({"n": 1})
    run = ["agent", "run", "--campaign", "/c", "--until-empty", "--scratch", str(tmp_path)]
    assert shell(taskq, "<&- >&- 2>&-", *run)[0] == 0
    (result,) = queue.campaign("/c").results()
    assert result.result == {"stdout": " ".join([os.devnull] * 3)}
