"""Limits that campaigns share, from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskq import Client
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine


@pytest.fixture
def taskq(dsn: str) -> CommandLine:
    """Give the command line of a queue."""
    return CommandLine(dsn)


@pytest.mark.parametrize("most", ["--", "many", "-1", "1.5", "20001", "9" * 5_000])
def test_limit_that_is_no_number_of_starts_is_refused_with_what_is_wanted(
    taskq: CommandLine, most: str
) -> None:
    code, said = taskq.refused("limit", "set", "--", "oechem", most)
    assert code == 2
    assert "must be how many starts may run at a time, a whole number from 0 to 20,000" in said
    assert "taskq limit set oechem 40" in said


def test_limits_are_set_shown_and_removed(
    taskq: CommandLine, queue: Client, hire: Hire, tmp_path: Path
) -> None:
    """Campaigns name them by an option or in their files."""
    said = taskq.out("limit", "set", "oechem", "40", "--owner", "alice", "--owner", "bob")
    assert said.strip() == "The limit oechem allows 40 starts; 0 campaigns so far name it."
    assert taskq.json("limit")[0]["owners"] == ["alice", "bob"]
    taskq.out("limit", "set", "oechem", "40")
    file = tmp_path / "c.toml"
    handler = '[handler]\nkind = "command"\nargv = ["x"]\n'
    file.write_text('path = "/c"\n[limits]\nnamed_limits = ["oechem"]\n' + handler)
    taskq.out("campaign", "create", "--campaign-file", str(file))
    taskq.out("campaign", "create", "/d", "--", "x")
    taskq.out("campaign", "change", "/d", "--named-limit", "oechem")
    assert taskq.json("campaign", "show", "/d")["limits"]["named_limits"] == ["oechem"]
    queue.campaign("/d").seed([{"n": n} for n in range(3)])
    hire("/d", slots=2).claim(3)
    (row,) = taskq.json("limit", "list")
    assert (row["name"], row["most"], row["used"], row["campaigns"]) == ("oechem", 40, 2, 2)
    assert row["holders"] == [{"path": "/d", "tasks": 3}]
    assert "oechem  2 of 40          2  /d (3)" in taskq.out("limit")
    taskq.out("campaign", "change", "/c", "--named-limit", "")
    assert taskq.json("campaign", "show", "/c")["limits"]["named_limits"] == []
    would = taskq.out("limit", "rm", "oechem", "--dry-run")
    assert would.strip() == (
        "The limit oechem would be removed, which 1 campaign would lose; nothing was changed."
    )
    removed = taskq.out("limit", "rm", "oechem")
    assert removed.strip() == "The limit oechem is removed; 1 campaign named it."
    assert taskq.json("limit") == []


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("limit", "set", "a b", "1"), 2, "a limit has a name"),
        (("limit", "set", "x", "20001"), 2, "20001"),
        (("limit", "rm", "x"), 66, "no limit 'x'"),
        (("limit", "rm", "x", "--dry-run"), 66, "no limit 'x'"),
        (("campaign", "create", "/c", "--named-limit", "x", "--", "y"), 66, "no limit 'x'"),
        (("campaign", "create", "/c", "--named-limit", "a b", "--", "y"), 2, "such as oechem"),
    ],
)
def test_error_says_what_is_wrong_with_a_limit(
    words: tuple[str, ...], code: int, message: str, taskq: CommandLine
) -> None:
    """With an exit code, and what to do."""
    refused = taskq(*words)
    assert refused.exit_code == code
    assert message in refused.stderr
