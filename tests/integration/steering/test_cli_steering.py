"""Acting on sets of tasks from the command line: what it prints, and what it refuses."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from taskq import Campaign, Seed
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, statuses

pytestmark = pytest.mark.both_transports

ESCAPES = "\x1b[31mred\x07\u202e"
TURNED = "red\u202e\u2066"  # without control characters, which no key has


@pytest.fixture
def ten(campaign: Campaign) -> Campaign:
    """Give ten tasks, k0 to k9."""
    campaign.seed(Seed({"n": n}, f"k{n}") for n in range(10))
    return campaign


def test_dry_run_says_how_many_and_which(
    taskq: CommandLine, ten: Campaign, postgres: Postgres
) -> None:
    """And how to see all of them; nothing is changed."""
    words = ("/c", "--where", "payload.n >= 2", "--dry-run")
    shown = taskq("cancel", *words)
    assert (shown.exit_code, shown.stderr) == (0, "")
    first, *examples, last = shown.stdout.splitlines()
    assert first == "8 tasks of /c would be cancelled; nothing was changed."
    assert examples == [f"  /c  k{n}  waiting, attempt 0" for n in range(2, 7)]
    assert last == "All: taskq tasks /c --where 'payload.n >= 2'"
    last = taskq.out("cancel", *words, "--no-below").splitlines()[-1]
    assert last == "All: taskq tasks /c --no-below --where 'payload.n >= 2'"
    assert set(statuses(postgres).values()) == {"waiting"}
    found = json.loads(taskq("cancel", *words, "-o", "json").stdout)
    assert (found["tasks"], found["dry_run"]) == (8, True)
    assert [example["key"] for example in found["examples"]] == [f"k{n}" for n in range(2, 7)]
    assert taskq("prioritise", *words, "--priority", 3).stdout.startswith(
        "8 tasks of /c would get the priority 3"
    )
    assert ten.cancel(["k5"]) == 1
    shown = taskq("retry", "/c", "--status", "cancelled", "--dry-run")
    assert shown.stdout == "1 task of /c would be tried again; nothing was changed.\n"
    assert ten.status().cancelled == 1


def test_dry_run_without_a_filter_only_counts(taskq: CommandLine, ten: Campaign) -> None:
    """The campaign, or the tasks that keys name; there is no question, since nothing is changed."""
    ten.cancel(["k5"])
    expected = {"path": "/c", "dry_run": True}
    assert taskq.json("cancel", "/c", "--dry-run") == expected | {"tasks": 9}
    assert taskq.json("cancel", "/", "--dry-run", "--no-below")["tasks"] == 0
    keys = ("--key", "k4", "--key", "k5", "--key", "k4")
    assert taskq.json("cancel", "/c", *keys, "--dry-run") == expected | {"tasks": 1}
    assert taskq.json("retry", "/c", "--status", "cancelled", *keys, "--dry-run")["tasks"] == 1
    assert (ten.status().state, ten.status().waiting) == ("open", 9)


def test_filters_go_with_what_is_below_or_not(taskq: CommandLine, ten: Campaign) -> None:
    """A campaign stands for all below it, unless an option says otherwise."""
    where = ("--where", "payload.n < 2")
    assert taskq.json("tasks", "/", *where, "--no-below") == []
    assert [task["campaign"] for task in taskq.json("tasks", "/", *where)] == ["/c", "/c"]
    prioritise = ("prioritise", *where, "--priority", 4)
    assert taskq.json(*prioritise, "/", "--no-below")["tasks"] == 0
    assert taskq.json(*prioritise, "/")["tasks"] == 2
    assert taskq.json("cancel", "/", *where, "--no-below")["tasks"] == 0
    assert taskq.json("cancel", "/", *where, "--yes")["tasks"] == 2
    retry = ("retry", "--status", "cancelled", *where)
    assert taskq.json(*retry, "/", "--no-below")["tasks"] == 0
    assert taskq.json(*retry, "/", "--dry-run")["tasks"] == 2
    assert taskq.json(*retry, "/")["tasks"] == 2
    assert ten.status().waiting == 10


def test_commands_list_retry_cancel_and_prioritise_matching_tasks(
    taskq: CommandLine, ten: Campaign
) -> None:
    """Only cancelling asks for confirmation."""
    assert [task["key"] for task in taskq.json("tasks", "/", "--where", "payload.n in (3, 4)")] == [
        *("k3", "k4"),
    ]
    shown = taskq("cancel", "/c", "--where", "payload.n < 3", "-o", "json", "--yes")
    assert json.loads(shown.stdout) == {"path": "/c", "tasks": 3, "dry_run": False}
    shown = taskq("retry", "/c", "--status", "cancelled", "--where", "payload.n = 1")
    assert shown.stdout == "1 task of /c will be tried again.\n"
    shown = taskq("prioritise", "/c", "--where", "payload.n = 9", "--priority", "7")
    assert shown.stdout == "1 task of /c got the priority 7.\n"
    assert ten.task("k9").priority == 7
    assert taskq.json("results", "/c", "--where", "result.x = 1") == []


@pytest.mark.usefixtures("ten")
def test_cancelling_by_a_filter_asks_with_the_number(
    taskq: CommandLine, postgres: Postgres
) -> None:
    """As cancelling a campaign does; scripts say --yes."""
    code, error = taskq.refused("cancel", "/c", "--where", "payload.n != 3")
    assert (code, "Cancel 9 matching tasks of /c and all below it?" in error) == (2, True), error
    assert set(statuses(postgres).values()) == {"waiting"}
    assert taskq.json("cancel", "/c", "--where", "payload.n = 30")["tasks"] == 0
    assert taskq.json("cancel", "/c", "--where", "payload.n != 3", "--yes")["tasks"] == 9


CHANGES = (
    ("cancel", "--yes"),
    ("cancel", "--dry-run"),
    ("retry",),
    ("prioritise", "--priority", "5"),
)


@pytest.mark.parametrize("change", CHANGES, ids=" ".join)
@pytest.mark.parametrize(
    "where",
    [
        *("payload.m != 3", "payload.m = 3", "payload.m not in (1, 2) and payload.n > 5"),
        *("payload.m = null", "result.n != 1"),
    ],
)
def test_field_that_no_task_has_refuses_changes(
    change: tuple[str, ...], where: str, taskq: CommandLine, ten: Campaign, postgres: Postgres
) -> None:
    """A missing field is not equal to anything, so a slip of the finger could mean all tasks."""
    ten.cancel(["k9"])
    before = statuses(postgres)
    name, *words = change
    for path in ("/c", "/"):
        code, error = taskq.refused(name, path, "--where", where, *words)
        assert code == 2, error
        what = "result of" if "result" in where else "task of"
        name_of = "result.n" if "result" in where else "payload.m"
        assert f"no {what} {path} has the field {name_of}" in error
        assert "nothing was changed" in error
    assert statuses(postgres) == before


@pytest.mark.usefixtures("ten")
@pytest.mark.parametrize("command", ["tasks", "results", "export"])
def test_filters_on_a_field_that_no_task_has_report_it(
    command: str, taskq: CommandLine, hire: Hire
) -> None:
    """An empty listing looks like an answer."""
    agent = hire()
    for task in agent.claim(2):
        agent.done(task, {"energy": -9.5})
    said = taskq(command, "/c", "--where", "result.enrgy < -9", "-o", "json")
    assert (said.exit_code, json.loads(said.stdout)) == (0, [])
    assert said.stderr == (
        "Warning: no result of /c has the field result.enrgy, but there is result.energy.\n"
    )
    said = taskq(command, "/c", "--where", "result.energy < -9", "-o", "json")
    assert (len(json.loads(said.stdout)), said.stderr) == (2, "")


@pytest.mark.parametrize("command", ["tasks", "retry", "cancel", "results", "export"])
def test_place_of_an_error_is_shown(command: str, taskq: CommandLine, ten: Campaign) -> None:
    """Below the filter, of which nothing obeys the terminal's codes."""
    shown = taskq(command, ten.path, "--where", f'key = "{ESCAPES}" and hots = "n17"')
    assert (shown.exit_code, shown.stdout) == (2, "")
    message, text, caret = shown.stderr.splitlines()
    assert message == (
        "Error: the filter cannot be read at column 24: there is no field of that name; did you "
        "mean host?"
    )
    assert text.isprintable()
    assert text[caret.index("^") :].startswith("hots")


@pytest.mark.parametrize(
    "words",
    [
        ("prioritise", "/c"),
        ("prioritise", "/c", "--priority", "1"),
        ("prioritise", "/c", "--priority", "40000", "--where", "attempts = 0"),
        ("prioritise", "/c", "--priority", "1", "--where", "attempts = 0", "--by", "x"),
        ("prioritise", "/c", "--priority", "1", "x.csv"),
        ("prioritise", "/c", "x.csv", "--dry-run"),
        ("retry", "/c", "--key", "k1", "--where", "attempts = 0"),
        ("tasks", "/c", "--key", "k1", "--where", "attempts = 0"),
        ("results", "/c", "--best", "3", "--by", "result.x", "--lowest", "--where", "attempts = 0"),
    ],
)
def test_contradicting_options_are_refused(
    words: tuple[str, ...], taskq: CommandLine, ten: Campaign
) -> None:
    """With a word on what goes with what."""
    shown = taskq(*words)
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert "--" in shown.stderr or "keys" in shown.stderr
    assert ten.status().waiting == 10


def test_file_of_scores_sets_priorities(taskq: CommandLine, ten: Campaign, tmp_path: Path) -> None:
    """By rank; unknown keys are named, whatever is in them."""
    file = tmp_path / "scores.csv.gz"
    with gzip.open(file, "wt", encoding="utf-8") as out:
        out.write(f"key,score\nk1,-9.50\nk2,-3\n{TURNED},1\nk4,-9.5\n")
    ten.cancel(["k2"])
    shown = taskq("prioritise", "/c", file, "--lowest")
    assert shown.stdout == (
        "2 tasks of /c got another priority, 1 no longer wait, 1 unknown key.\n"
    )
    assert shown.stderr.startswith("No task has the key ")
    assert shown.stderr.strip().isprintable()
    assert [ten.task(f"k{n}").priority for n in (1, 2, 4)] == [1_000, 0, 1_000]
    again = taskq("prioritise", "/c", file, "--lowest", "-o", "json")
    assert json.loads(again.stdout) == {
        "path": "/c",
        "total": 4,
        "changed": 0,
        "unchanged": 2,
        "not_waiting": 1,
        "unknown": 1,
        "some_unknown": [TURNED],
    }


def test_fields_of_the_file_can_be_named(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """Keys of several fields are made as `taskq seed` makes them."""
    campaign.seed([Seed({"n": 1}, "007,a"), Seed({"n": 2}, "8,b")])
    file = tmp_path / "p.jsonl"
    file.write_text('{"id": "007", "x": "a", "p": 5, "q": 1}\n', encoding="utf-8")
    shown = taskq("prioritise", "/c", file, "--key-field", "id,x", "--by", "p")
    assert shown.stdout == "1 task of /c got another priority.\n"
    assert [task.priority for task in campaign.tasks()] == [5, 0]


@pytest.mark.parametrize(
    ("content", "code", "why"),
    [
        ("key,a,b\nk1,1,2\n", 2, "name the field with --by"),
        ("key,a\nk1\n", 65, "nothing was changed"),
        ("key,a\nk1,high\n", 65, "whole number"),
        ("key,a\nk1,99999\n", 65, "outside"),
        ("id,a\nk1,1\n", 2, "no column 'key'"),
        ("key\nk1\n", 2, "has nothing apart from the key"),
    ],
)
def test_file_that_makes_no_sense_changes_nothing(
    content: str, code: int, why: str, taskq: CommandLine, ten: Campaign, tmp_path: Path
) -> None:
    """And the message says what is wrong."""
    file = tmp_path / "p.csv"
    file.write_text(content, encoding="utf-8")
    shown = taskq("prioritise", "/c", file)
    assert (shown.exit_code, shown.stdout) == (code, "")
    assert why in shown.stderr
    assert {task.priority for task in ten.tasks()} == {0}
