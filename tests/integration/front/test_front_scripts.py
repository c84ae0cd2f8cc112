"""The scripts inside Redis, and the link to it, on each kind of server that this machine has."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import pytest

from taskq.front.address import FrontAddress
from taskq.front.entries import Keys
from taskq.front.redis import ANSWER_S, FrontDown, RedisLink
from tests.fixtures.redis_servers import RedisServer, StartRedis
from tests.helpers.waiting import BUSY_S

KEYS = Keys("0123456789abcdef")
EPOCH = 3
LOW = 2
#: Longer entries are dropped where they are found, see pop.lua.
MAX_ENTRY_BYTES = 1 << 20
#: Megabytes take their time where others work.
PATIENCE_S = 100.0

T = TypeVar("T")


def linked(
    server: RedisServer, scene: Callable[[RedisLink], Awaitable[T]], answer_s: float = PATIENCE_S
) -> T:
    """Run a coroutine with a link in a loop of its own."""

    async def run() -> T:
        link = RedisLink(FrontAddress.parsed(server.url), answer_s)
        try:
            return await scene(link)
        finally:
            await link.close()

    return asyncio.run(asyncio.wait_for(run(), 30))


def run(server: RedisServer, name: str, keys: Sequence[bytes], *args: bytes | str | int) -> Any:
    """Run one script."""
    return linked(server, lambda link: link.run(name, keys, args))


def begin(server: RedisServer, epoch: int = EPOCH, *campaigns: int) -> list[bytes]:
    keys = [KEYS.state, KEYS.wanted, KEYS.wake, *map(KEYS.tasks, campaigns)]
    missing: list[bytes] = run(server, "begin", keys, epoch, *campaigns)
    return missing


def push(
    server: RedisServer, *entries: bytes, campaign: int = 7, side: str = "right", epoch: int = EPOCH
) -> Any:
    keys = [KEYS.state, KEYS.tasks(campaign)]
    return run(server, "push", keys, epoch, campaign, LOW, side, *entries)


def pop(server: RedisServer, *counts: tuple[int, int], epoch: int = EPOCH) -> Any:
    keys = [KEYS.state, KEYS.wanted, KEYS.wake, *(KEYS.tasks(campaign) for campaign, _ in counts)]
    return run(server, "pop", keys, epoch, *(word for pair in counts for word in pair))


@pytest.fixture
def server(any_redis_server: RedisServer) -> RedisServer:
    """Give, in turn, each server; the front has begun there."""
    assert begin(any_redis_server) == []
    return any_redis_server


def test_entries_are_popped_in_the_order_in_which_they_were_pushed(server: RedisServer) -> None:
    """Tasks are handed out as PostgreSQL has ordered them; overtakers come first, in order too."""
    assert push(server, b"c", b"d", b"e") == 3
    assert push(server, b"a", b"b", side="left") == 5
    assert pop(server, (7, 4)) == [[[b"a", b"b", b"c", b"d"], 1]]
    assert pop(server, (7, 4)) == [[[b"e"], 0]]


def test_one_pop_serves_several_campaigns(server: RedisServer) -> None:
    """Claims that are gathered go to several lists at once; a count of 0 only looks."""
    push(server, b"a", b"b", b"c", campaign=7)
    push(server, b"x", b"y", campaign=8)
    assert pop(server, (7, 1), (8, 5), (9, 1), (7, 0)) == [
        [[b"a"], 2],
        [[b"x", b"y"], 0],
        [[], 0],
        [[], 2],
    ]


@pytest.mark.parametrize("epoch", [EPOCH - 1, EPOCH + 1])
def test_other_epoch_is_refused_and_changes_nothing(server: RedisServer, epoch: int) -> None:
    """Who has slept through a new beginning neither takes nor leaves anything."""
    push(server, b"a")
    before = server.admin.dump(KEYS.state)
    assert pop(server, (7, 1), (8, 1), epoch=epoch) is None
    assert push(server, b"stale", epoch=epoch) is None
    survey = [KEYS.state, KEYS.wanted, KEYS.wake, KEYS.tasks(7)]
    assert run(server, "survey", survey, epoch) is None
    assert server.admin.lrange(KEYS.tasks(7), 0, -1) == [b"a"]
    assert server.admin.dump(KEYS.state) == before
    assert server.admin.exists(KEYS.wanted, KEYS.wake) == 0


def test_flushed_server_has_no_epoch(server: RedisServer) -> None:
    """After FLUSHALL everything is refused until somebody begins anew."""
    push(server, b"a")
    server.admin.flushall()
    assert pop(server, (7, 1)) is None
    assert push(server, b"b") is None
    assert server.admin.dbsize() == 0


def test_refiller_is_woken_when_a_list_runs_low_and_not_before(server: RedisServer) -> None:
    """Below the mark is low; one signal is enough for however many pops."""
    push(server, b"a", b"b", b"c", b"d")
    pop(server, (7, 2))
    assert server.admin.llen(KEYS.wake) == 0
    pop(server, (7, 1))
    pop(server, (7, 1))
    assert server.admin.llen(KEYS.wake) == 1
    assert server.admin.exists(KEYS.wanted) == 0, "it was served"


def test_campaign_asked_for_in_vain_is_wanted(server: RedisServer) -> None:
    """The refiller learns of campaigns without a list, in each survey of those since the last."""
    pop(server, (7, 1), (8, 0))
    assert server.admin.llen(KEYS.wake) == 1
    push(server, b"a", campaign=9)
    survey = [KEYS.state, KEYS.wanted, KEYS.wake, KEYS.tasks(9), KEYS.tasks(7)]
    lengths, wanted = run(server, "survey", survey, EPOCH)
    assert lengths == [1, 0]
    assert sorted(wanted) == [b"7", b"8"]
    assert run(server, "survey", survey, EPOCH) == [[1, 0], []]


def test_beginning_empties_every_list_that_was_known(server: RedisServer) -> None:
    """No entry of an old epoch stays where a new one would be pushed behind it."""
    push(server, b"a", campaign=7)
    push(server, b"b", campaign=8)
    pop(server, (9, 1))
    assert sorted(begin(server, 4)) == [b"7", b"8"], "it tells which lists must be given"
    assert pop(server, (7, 0)) == [[[], 1]], "and has done nothing"
    assert begin(server, 4, 7, 8) == []
    assert server.admin.keys() == [KEYS.state]
    assert server.admin.hgetall(KEYS.state) == {b"epoch": b"4"}


@pytest.mark.parametrize("vandalism", ["string", "many", "fields"])
def test_beginning_heals_a_state_that_somebody_has_spoiled(
    server: RedisServer, vandalism: str
) -> None:
    """A front that was written over comes back by itself."""
    server.admin.delete(KEYS.state)
    if vandalism == "string":
        server.admin.set(KEYS.state, "no hash")
        server.admin.set(KEYS.wanted, "no set")
        server.admin.set(KEYS.wake, "no list")
    elif vandalism == "many":
        server.admin.hset(KEYS.state, mapping={f"low:{number}": 1 for number in range(10_001)})
    else:
        server.admin.hset(KEYS.state, mapping={"low:": 1, "low:x": 1, "low:" + "9" * 30: 1, "": 1})
    assert begin(server) == []
    assert server.admin.hgetall(KEYS.state) == {b"epoch": b"3"}
    assert push(server, b"a") == 1


def test_withdrawing_takes_all_entries_in_bounded_steps(server: RedisServer) -> None:
    """A paused campaign leaves the pool at once, however long its list."""
    entries = [b"%d" % number for number in range(600)]
    push(server, *entries)
    taken: list[bytes] = []
    lengths: list[int] = []
    left = 1
    while left:
        some, left = run(server, "withdraw", [KEYS.tasks(7)])
        taken += some
        lengths.append(len(some))
    assert taken == entries
    assert max(lengths) <= 256
    assert run(server, "withdraw", [KEYS.tasks(7)]) == [[], 0]


@pytest.mark.parametrize("script", ["pop", "withdraw"])
def test_answers_are_bounded_whatever_somebody_has_pushed(server: RedisServer, script: str) -> None:
    """Who can write into Redis cannot fill the memory of gateways and refillers."""
    huge, large = b"x" * (MAX_ENTRY_BYTES + 1), b"y" * MAX_ENTRY_BYTES
    server.admin.rpush(KEYS.tasks(7), huge, *[large] * 25, b"last")

    def answer() -> tuple[list[bytes], int]:
        if script == "withdraw":
            entries, left = run(server, "withdraw", [KEYS.tasks(7)])
        else:
            ((entries, left),) = pop(server, (7, 1_000))
        return entries, left

    entries, left = answer()
    assert entries == [large] * 15, "a step is finished, then it is enough"
    assert left == 11
    entries, left = answer()
    assert (entries[-1], len(entries), left) == (b"last", 11, 0)


def test_popping_goes_on_when_memory_has_run_out(server: RedisServer) -> None:
    """What was taken reaches the claim, though no signal can be left; pushing fails, unharmed."""
    push(server, b"a", b"b")
    server.admin.config_set("maxmemory", 1)
    assert pop(server, (7, 1), (8, 1)) == [[[b"a"], 1], [[], 0]]
    with pytest.raises(FrontDown, match="maxmemory"):
        push(server, b"c")
    server.admin.config_set("maxmemory", 0)
    assert pop(server, (7, 5)) == [[[b"b"], 0]]


@pytest.mark.parametrize("key", [KEYS.state, KEYS.tasks(7)])
def test_key_of_the_wrong_kind_is_an_error_of_the_front(server: RedisServer, key: bytes) -> None:
    """It is reported as such, and the connection stays in step."""
    server.admin.delete(key)
    server.admin.sadd(key, "x")

    async def scene(link: RedisLink) -> None:
        keys = [KEYS.state, KEYS.wanted, KEYS.wake, KEYS.tasks(7)]
        with pytest.raises(FrontDown, match="WRONGTYPE"):
            await link.run("pop", keys, [EPOCH, 7, 1])
        assert link.connected
        assert await link.run("begin", keys, [EPOCH, 7]) == []
        assert await link.run("pop", keys, [EPOCH, 7, 1]) == [[[], 0]]

    linked(server, scene)


def test_link_says_which_server_it_is(server: RedisServer) -> None:
    """A server that was started again differs from the one before it."""
    infos = [linked(server, lambda link: link.info(KEYS.state)) for _ in range(2)]
    assert infos[0] == infos[1]
    assert len(infos[0].run_id) == 40
    assert infos[0].version.count(".") == 2
    server.stop()
    server.start()
    assert linked(server, lambda link: link.info(KEYS.state)).run_id != infos[0].run_id


def test_waiting_ends_with_a_signal_or_with_the_time(redis_server: RedisServer) -> None:
    """The refiller sleeps until it is needed."""

    async def scene(link: RedisLink) -> None:
        began = time.monotonic()
        assert not await link.wait(KEYS.wake, 0.05)
        assert time.monotonic() - began >= 0.05
        redis_server.admin.rpush(KEYS.wake, "1")
        assert await link.wait(KEYS.wake, 20.0)
        assert redis_server.admin.llen(KEYS.wake) == 0

    linked(redis_server, scene)


def test_scripts_that_a_server_has_forgotten_are_sent_again(redis_server: RedisServer) -> None:
    """A restart or SCRIPT FLUSH is no error."""
    begin(redis_server)
    push(redis_server, b"a", b"b")
    for entry in (b"a", b"b"):
        redis_server.admin.script_flush()
        assert pop(redis_server, (7, 1))[0][0] == [entry]


@pytest.mark.thorough
def test_front_that_is_gone_or_hangs_fails_sooner_than_a_claim_in_postgresql_would(
    redis_server: RedisServer,
) -> None:
    """Nobody waits for a front for longer than it takes to ask PostgreSQL."""
    begin(redis_server)

    async def scene(link: RedisLink) -> None:
        async def failing() -> float:
            began = time.monotonic()
            with pytest.raises(FrontDown):
                await link.run("pop", [KEYS.state, KEYS.wanted, KEYS.wake], [EPOCH])
            assert not link.connected
            return time.monotonic() - began

        assert await link.run("pop", [KEYS.state, KEYS.wanted, KEYS.wake], [EPOCH]) == []
        redis_server.freeze()
        assert ANSWER_S <= await failing() < BUSY_S
        assert await failing() < BUSY_S, "also where it must be opened"
        redis_server.thaw()
        assert await link.run("pop", [KEYS.state, KEYS.wanted, KEYS.wake], [EPOCH]) == []
        redis_server.kill()
        assert await failing() < BUSY_S
        redis_server.start()
        assert await link.run("pop", [KEYS.state, KEYS.wanted, KEYS.wake], [EPOCH]) is None

    linked(redis_server, scene, ANSWER_S)


def test_cancelled_call_leaves_no_answer_for_the_next_one(redis_server: RedisServer) -> None:
    """A connection that is out of step would give one gateway's tasks to another claim."""
    begin(redis_server)
    push(redis_server, b"a")

    async def scene(link: RedisLink) -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(link.wait(KEYS.wake, 20.0), 0.05)
        keys = [KEYS.state, KEYS.wanted, KEYS.wake, KEYS.tasks(7)]
        assert await link.run("pop", keys, [EPOCH, 7, 0]) == [[[], 1]]

    linked(redis_server, scene)


def test_password_is_used_and_appears_in_no_error(start_redis: StartRedis) -> None:
    """Errors name the server only; a wrong password is one of the front's troubles."""
    server = start_redis("--requirepass", "s3cret")
    server.url = f"unix://:s3cret@{server.socket}"
    assert begin(server) == []
    server.url = f"unix://:wr0ng@{server.socket}"
    with pytest.raises(FrontDown) as refused:
        begin(server)
    assert str(server.socket) in str(refused.value)
    assert "wr0ng" not in str(refused.value)
