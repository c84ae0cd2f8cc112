"""The command as a process, and what it speaks with: terminals, pipes, shells."""

from __future__ import annotations

import re
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from taskq import Campaign, CampaignSpec, Client, Handler, Seed
from taskq.db.connections import Database
from tests.fixtures.queues import Hire
from tests.helpers.command_line import TIMEOUT_S, CommandLine
from tests.helpers.postgres import Postgres


@pytest.mark.thorough
@pytest.mark.parametrize("answer", ["n\r", "\r", "\x04"])
def test_question_that_is_not_answered_with_yes_changes_nothing(
    taskq: CommandLine, campaign: Campaign, answer: str
) -> None:
    """On a terminal, cancelling asks; no, nothing and the end of input leave all as it is."""
    campaign.seed([{"n": 1}])
    with taskq.terminal("cancel", "/c") as terminal:
        terminal.wait_for("Cancel /c and all below it, with 1 unfinished task? [y/N]:")
        terminal.type(answer)
        assert terminal.end() in {1, 130}
    assert campaign.status().waiting == 1


def test_yes_on_the_terminal_cancels(taskq: CommandLine, campaign: Campaign) -> None:
    """The question can be answered."""
    campaign.seed([{"n": 1}])
    with taskq.terminal("cancel", "/c") as terminal:
        terminal.wait_for("[y/N]:")
        terminal.type("y\r")
        assert terminal.end() == 0
    assert campaign.status().cancelled == 1


@pytest.fixture
def many(campaign: Campaign) -> Campaign:
    """Give a campaign with more tasks than a pipe holds."""
    campaign.seed({"n": n, "text": "x" * 1_000} for n in range(500))
    return campaign


@pytest.mark.thorough
@pytest.mark.parametrize(
    "words",
    [
        ["tasks", "/c", "--limit", "500"],
        ["tasks", "/c", "-o", "json"],
        ["tasks", "/c", "-o", "jsonl"],
        ["watch", "/c", "--interval", "0.1"],
    ],
    ids=" ".join,
)
def test_reader_that_goes_away_is_no_error(
    taskq: CommandLine, many: Campaign, words: list[str]
) -> None:
    """As with `| head`: quiet, and no exit code that would end a script."""
    with taskq.process(*words) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        error = process.stderr.read()
        assert process.wait(TIMEOUT_S) == 0
    assert error == ""
    assert many.status().waiting == 500


@pytest.mark.thorough
def test_output_is_utf_8_in_any_locale(taskq: CommandLine, campaign: Campaign) -> None:
    """A key of a distant alphabet is written, and JSON stays JSON."""
    campaign.seed([Seed({"n": 1}, key="β-lactam")])
    ascii_only = taskq.environment | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    for words in (["tasks", "/c", "-o", "json"], ["tasks", "/c"]):
        with taskq.process(*words, env=ascii_only, encoding="utf-8") as process:
            out, error = process.communicate(timeout=TIMEOUT_S)
        assert (process.returncode, error) == (0, "")
        assert "β-lactam" in out


@pytest.mark.thorough
def test_unexpected_exception_shows_its_traceback(taskq: CommandLine) -> None:
    """A message would hide the defect."""
    program = (
        "from taskq_cli.main import main; import taskq_cli.commands.status as status\n"
        "def broken(*_, **__): raise ZeroDivisionError('a defect')\n"
        "status.read_overview = broken; main(['status'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=taskq.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "ZeroDivisionError: a defect" in done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("words", "unwanted"),
    [
        (
            ["status"],
            {
                "pyarrow",
                "rich.progress",
                "taskq_agent.loop",
                "tomllib",
                "taskq.results.records",
            },
        ),
        (["tasks", "/c"], {"pyarrow", "rich.progress", "taskq_agent.loop", "tomllib"}),
    ],
    ids=["status", "tasks"],
)
def test_command_imports_only_what_it_needs(
    taskq: CommandLine, campaign: Campaign, words: list[str], unwanted: set[str]
) -> None:
    """Commands start quickly, since each is loaded when it is called."""
    program = (
        "import sys; from taskq_cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        env=taskq.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert campaign.path
    assert not set(done.stderr.split()) & unwanted


@pytest.mark.thorough
def test_completion_knows_the_campaigns(taskq: CommandLine, queue: Client) -> None:
    """A shell completes commands, options and paths."""
    queue.create_campaign("/wisdom/malaria")
    queue.create_campaign("/wisdom/flu")
    for words, proposals in (
        ("taskq stat", {"status"}),
        ("taskq seed --on-error s", {"stop", "skip"}),
        ("taskq ls /wisdom/", {"/wisdom/flu", "/wisdom/malaria"}),
        ("taskq agent run --campaign /wis", {"/wisdom"}),
    ):
        environment = taskq.environment | {
            "_TASKQ_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        }
        done = subprocess.run(
            [Path(sys.executable).with_name("taskq")],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert {line.split(",")[1] for line in done.stdout.splitlines()} == proposals


ESCAPES = "\x1b[31mred\x1b]0;title\x07\x9b2J\u202e"

SHOWING = (
    ["agents", "list"],
    ["tasks", "/c"],
    ["failures", "/c"],
    ["status", "/c"],
)
SHOWING_TOO = (
    ["agents", "list", "--output", "jsonl"],
    ["campaign", "show", "/c"],
    ["tasks", "/c", "--status", "working"],
    ["results", "/c"],
    ["failures", "/c", "--output", "json"],
    ["logs", "/c", "KEY"],
    ["export", "/c", "--format", "csv"],
    ["export", "/c", "--format", "jsonl"],
)


@pytest.mark.both_transports
@pytest.mark.thorough
@pytest.mark.parametrize("commands", [[*SHOWING], [*SHOWING_TOO]])
def test_terminal_gets_nothing_that_it_could_obey(
    taskq: CommandLine,
    database: Database,
    campaign: Campaign,
    hire: Hire,
    postgres: Postgres,
    commands: list[list[str]],
) -> None:
    """What agents, payloads and other submitters have said is shown, but never acts."""
    campaign.seed([{"text": ESCAPES, "bad": 0}, {"text": ESCAPES, "bad": 1}])
    agent = hire()
    good, bad = agent.claim(2)
    agent.done(good, {"text": ESCAPES, ESCAPES: 1})
    agent.report(
        bad, "failed", error_class=ESCAPES, error=ESCAPES, retry=False, tail=f"{ESCAPES}\n"
    )
    campaign.change(
        CampaignSpec("/c", description=ESCAPES, handler=Handler("command", argv=("echo", ESCAPES)))
    )
    named = dict.fromkeys(("agent", "host", "site", "release"), ESCAPES)
    session = {"lease_s": 60, "pid": 1, "slots": 1, "offers": [], "key": str(uuid.uuid4())}
    hired = database.value("open_session", path="/c", **session, **named)
    campaign.submit({"n": 1})
    lease = str(uuid.uuid4())
    postgres.execute("select from taskq.claim('/c', %s, %s)", [hired, lease])
    for command in commands:
        words = [bad.key if word == "KEY" else word for word in command]
        with taskq.terminal(*words, columns=500, environment={"NO_COLOR": "1"}) as terminal:
            assert terminal.end() == 0
        shown = re.sub("\x1b\\[[012]m", "", terminal.seen)  # ours: bold and dim
        assert not set(shown) & set("\x1b\x07\x9b\u202e"), (words, shown)
        assert "31mred" in shown, words
