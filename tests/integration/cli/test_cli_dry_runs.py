"""`--dry-run` of commands that remove something: it says what would go, and all stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskq import Campaign
from tests.helpers.command_line import CommandLine

REMOVALS = (
    (["campaign", "rm", "/c"], ["ls"], "/c and 0 tasks with all results would be deleted"),
    (["input", "remove", "/c", "ligands"], ["input", "list", "/c"], "ligands of /c, 3 bytes,"),
    (["notify", "rm", "night"], ["notify", "list"], "rule night would be removed, with 0 waiting"),
    (["pilots", "rm", "here"], ["pilots", "list"], "pilot here would be removed, with 0 live jobs"),
    (["token", "revoke", "ada"], ["token", "list"], "token ada would be revoked, with 0 sessions"),
)


@pytest.fixture
def filled(taskq: CommandLine, campaign: Campaign, tmp_path: Path) -> CommandLine:
    """Give the commands on a queue that has one of each."""
    file = tmp_path / "ligands"
    file.write_bytes(b"CCO")
    taskq.out("input", "add", campaign.path, file)
    rule = ("--campaign", "/c", "--on", "finished", "--to", "mail:ann@example.org")
    taskq.out("notify", "add", "night", *rule)
    taskq.out("pilots", "add", "local", "here", "--campaign", "/c", "--folder", tmp_path)
    taskq.out("token", "create", "ada", "--manager", "--campaign", "/c")
    return taskq


@pytest.mark.parametrize(
    ("remove", "look", "said"), REMOVALS, ids=lambda it: it[0] if isinstance(it, list) else ""
)
def test_dry_run_removes_nothing(
    filled: CommandLine, remove: list[str], look: list[str], said: str
) -> None:
    """It names the thing; the same command without it then removes that."""
    before = filled.json(*look)
    told = filled.out(*remove, "--dry-run")
    assert said in told
    assert told.endswith("; nothing was changed.\n")
    assert filled.json(*look) == before
    filled.out(*remove, *(["--yes"] * (remove[0] in {"campaign", "pilots"})))
    assert filled.json(*look) != before
    assert filled.refused(*remove, "--dry-run")[0] == 66
