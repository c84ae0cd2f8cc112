"""Owners and quotas from the command line."""

from __future__ import annotations

import pytest

from taskq import Client
from tests.helpers.campaigns import servable
from tests.helpers.command_line import CommandLine


@pytest.fixture
def taskq(dsn: str, queue: Client) -> CommandLine:
    """Give the command line of a queue with the campaign /c, of four tasks."""
    servable(queue, "/c", tasks=4)
    return CommandLine(dsn)


def test_quotas_are_set_shown_and_removed(taskq: CommandLine, queue: Client) -> None:
    """Names that are new are questioned; what is not named stays."""
    me = queue.owners.of("/c")
    said = taskq.out("owners", "quota", "alice", "--running", "20k", "--waiting", "5M")
    assert "0 campaigns so far; is the name right?" in said
    taskq.out("owners", "quota", "alice", "--bytes", "50G")
    assert "1 campaign given to alice" in taskq.out("owners", "give", "/c", "alice")
    (row,) = taskq.json("owners", "list", "/c")
    assert (row["owner"], row["waiting"], row["max_running"]) == ("alice", 4, 20_000)
    assert (row["max_waiting"], row["max_bytes"]) == (5_000_000, 50 * 2**30)
    table = taskq.out("owners")
    assert "alice          1  0 of 20,000  4 of 5,000,000  0 bytes of 50 GiB" in table
    assert "WEIGHT" not in table
    assert "are shared by owner" in taskq.out("owners", "share", "owner")
    assert "were already shared by owner" in taskq.out("owners", "share", "owner")
    assert "WEIGHT" in taskq.out("owners")
    shown = dict(
        line.split(maxsplit=1) for line in taskq.out("campaign", "show", "/c").splitlines()
    )
    assert shown["owner"] == "alice"
    assert taskq.json("campaign", "show", "/c")["owner"] == "alice"
    removal = ("--running", "none", "--waiting", "none", "--bytes", "none")
    taskq.out("owners", "quota", "alice", *removal)
    taskq.out("owners", "give", "/c", str(me))
    assert [row["owner"] for row in taskq.json("owners")] == [me]


def test_seeding_beyond_the_quota_ends_with_a_code_and_goes_on_later(
    taskq: CommandLine, queue: Client
) -> None:
    """Nothing of the chunk is added; the message says what to do."""
    me = str(queue.owners.of("/c"))
    taskq.out("owners", "quota", me, "--waiting", "6")
    refused = taskq("seed", "/c", "--sweep", "n=1:5")
    assert refused.exit_code == 3
    assert "allows 6 waiting tasks; 4 wait, so there is no room for 5 more" in refused.stderr
    assert queue.campaign("/c").status().waiting == 4
    taskq.out("owners", "quota", me, "--waiting", "1k")
    assert taskq("seed", "/c", "--sweep", "n=1:5").exit_code == 0


def test_names_of_owners_do_nothing_to_a_terminal(taskq: CommandLine, queue: Client) -> None:
    """A login may be called anything."""
    evil = "x\x1b[31mred\x9b\u202e"
    queue.owners.set_quota(evil, {"max_running": 1})
    for words in (("owners",), ("owners", "-o", "json"), ("owners", "give", "/c", evil)):
        output = taskq.out(*words)
        assert not {"\x1b", "\x9b", "\u202e"} & set(output)
    assert not {"\x1b", "\x9b"} & set(taskq.out("explain", "/c"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("quota", "alice"), "nothing to change"),
        (("quota", "alice", "--running", "many"), "must be a number, such as 1000 or 20k, or none"),
        (("quota", "alice", "--running", "-1"), "must be a number"),
        (("quota", "alice", "--running", "2M"), "a quota is of an owner"),
        (("quota", "alice", "--bytes", "x"), "as 512M, 50G or 1.5T"),
        (("quota", "alice", "--weight", "0"), "--weight"),
        (("quota", "", "--weight", "2"), "a quota is of an owner"),
        (("share", "user"), "owner"),
    ],
)
def test_malformed_quota_is_an_error_in_a_line(
    taskq: CommandLine, words: tuple[str, ...], message: str
) -> None:
    """With code 2, and nothing changed."""
    refused = taskq("owners", *words)
    assert refused.exit_code == 2
    assert message in refused.stderr
