"""Tokens, and agents that shall leave, from the command line."""

from __future__ import annotations

import stat
import uuid
from pathlib import Path

import pytest

from taskq import Client
from taskq.db.tokens import hashed, session_token
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, value


@pytest.fixture
def taskq(dsn: str, queue: Client) -> CommandLine:
    """Give the command line of a queue with the campaigns /c and /c/below."""
    queue.create_campaign("/c/below")
    return CommandLine(dsn)


def test_token_is_printed_once_and_never_again(taskq: CommandLine, postgres: Postgres) -> None:
    """Alone on standard output; `list` tells all but the token."""
    created = taskq("token", "create", "site-a", "--kind", "site", "--campaign", "/c", "--uses", 3)
    token = created.stdout.strip()
    assert created.exit_code == 0
    assert "The token site-a is valid until" in created.stderr
    assert value(postgres, "select hash from taskq.token") == hashed(token)
    made = taskq.json(
        "token", "create", "ada", "--kind", "manager", "--campaign", "/", "--expires-in", "1d"
    )
    assert made["token"].startswith("tqm_")
    for output in ("table", "json"):
        listed = taskq.out("token", "list", "-o", output)
        assert "site-a" in listed
        assert token[4:20] not in listed
    assert "0 of 3" in taskq.out("token", "list")


def test_token_goes_to_a_file_that_only_its_owner_can_read(
    taskq: CommandLine, tmp_path: Path, postgres: Postgres
) -> None:
    """Made anew: a file that is there, or a link, is left alone, and then there is no token."""
    words = ("token", "create", "site-a", "--kind", "site", "--campaign", "/c", "--to")
    place = tmp_path / "token"
    assert f"The token site-a is in {place}" in taskq.out(*words, place)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert value(postgres, "select hash from taskq.token") == hashed(place.read_text().strip())

    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    for taken in (place, link):
        assert taskq.refused(*words, taken) == (3, f"{taken} exists; give the name of a new file")
    code, error = taskq.refused(*words, tmp_path / "none" / "token")
    assert (code, error.endswith("No such file or directory")) == (2, True)
    assert value(postgres, "select count(*) from taskq.token") == 1


def test_no_file_is_left_for_a_token_that_was_not_created(
    taskq: CommandLine, tmp_path: Path
) -> None:
    """The name can be used for the next try."""
    place = tmp_path / "token"
    words = ("token", "create", "a", "--kind", "site", "--to", place, "--campaign")
    code, error = taskq.refused(*words, "/none")
    assert (code, "no campaign /none" in error) == (66, True)
    assert not place.exists()


def test_name_that_is_taken_proposes_the_rotation(taskq: CommandLine, postgres: Postgres) -> None:
    """The proposed command works; a token that admits nobody any more is simply replaced."""
    words = ("token", "create", "b", "--kind", "site", "--campaign", "/c")
    taskq.out(*words)
    code, error = taskq.refused(*words)
    assert code == 3
    assert error == (
        "there is a token b; to replace it: `taskq token create --kind site --site b --campaign "
        "/c --to b-2.token b-2`, give that to its users, then `taskq token revoke b`, which ends "
        "its sessions"
    )
    taskq.out("token", "create", "--kind", "site", "--site", "b", "--campaign", "/c", "b-2")
    assert "--kind site --site b --campaign /c --to b-3.token b-3`" in taskq.refused(*words)[1]
    postgres.execute("update taskq.token set expires_at = now() - interval '1 day'")
    assert taskq.refused(*words)[1] == (
        "there is a token b, which is expired: `taskq token revoke b`, then create it again"
    )


def test_token_needs_a_kind_and_values_that_are_some(taskq: CommandLine) -> None:
    """The error says what to write."""
    words = ("token", "create", "a", "--campaign", "/c")
    error = taskq.refused(*words)[1]
    assert error.startswith("Missing option '--kind'. Choose from: site, manager, submitter")
    for more, reason in (
        (["--kind", "site", "--network", "here"], "write 192.0.2.0/24"),
        (["--kind", "manager", "--uses", 3], "cannot have uses, networks or"),
        (["--kind", "site", "--expires-in", 0], "--expires-in"),
    ):
        code, error = taskq.refused(*words, *more)
        assert (code, reason in error) == (2, True), error


def test_revoking_says_what_has_ended(taskq: CommandLine, postgres: Postgres) -> None:
    """And a name that nobody has is reported."""
    token = taskq.out("token", "create", "a", "--kind", "site", "--campaign", "/c").strip()
    key = str(uuid.uuid4())
    postgres.execute(
        "select taskq.enrol(%s, %s, null, '/c', %s)",
        [hashed(token), hashed(session_token(token, key)), key],
    )
    (agent,) = taskq.json("agents")
    assert (agent["token"], agent["draining"]) == ("a", False)
    text = "The token a is revoked; 1 session ended, 0 attempts handed back.\n"
    assert taskq.out("token", "revoke", "a") == text
    assert taskq.json("agents") == []
    assert [record["state"] for record in taskq.json("token", "list")] == ["revoked"]
    assert taskq.refused("token", "revoke", "b")[0] == 66


def test_drain_orders_the_chosen_agents_to_leave(
    taskq: CommandLine, hire: Hire, postgres: Postgres
) -> None:
    """It counts each of them once; the list shows them as draining."""
    above, below = hire("/c"), hire("/c/below")
    postgres.execute("update taskq.session set site = 'b' where session_id = %s", [above.session])
    drain = ("agents", "drain", "--yes")
    assert taskq.out(*drain, "--campaign", "/c/below") == "1 agent ordered to leave.\n"
    draining = {agent["session_id"]: agent["draining"] for agent in taskq.json("agents")}
    assert draining == {above.session: False, below.session: True}
    assert " draining " in taskq.out("agents")
    assert taskq.json(*drain, "--site", "b", "--name", "other")["agents"] == 0
    assert taskq.json(*drain, "--site", "b", "--name", "double")["agents"] == 1
    assert taskq.json(*drain, "--campaign", "/")["agents"] == 0
    assert taskq.refused("agents", "drain", "--campaign", "/none")[0] == 66
    code, error = taskq.refused("agents", "drain")
    assert code == 2
    assert error == (
        "say which agents should leave: give --site, --name, --host or --campaign; "
        "--campaign / means all"
    )


def test_list_may_be_left_out(taskq: CommandLine, hire: Hire) -> None:
    """`taskq agent` lists, with whatever options `list` has."""
    agent = hire("/c")
    for words in (
        ["agents", "list", "/c"],
        ["agents", "/c"],
        ["agents", "--limit", 1],
        ["agents"],
    ):
        assert [record["session_id"] for record in taskq.json(*words)] == [agent.session]
    assert "drain" in taskq.out("agents", "-h")
