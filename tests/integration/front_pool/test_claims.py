"""Claims from the front are instant, and give what PostgreSQL has leased."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec

from taskq import CampaignSpec, Client
from taskq.dispatch.fair_share import Scope
from taskq.front.popper import MOST_FORGED
from tests.fixtures.front import in_pool
from tests.helpers.front_harness import ALL, NEVER_RUN, Desk, Front, Play, leases, plain, until
from tests.helpers.postgres import Postgres, task_row, value

#: For so long a busy machine may leave a test alone.
STALL_S = 2.0


def test_claim_gives_a_task_that_is_leased_already(
    front: Front, play: Play, postgres: Postgres
) -> None:
    """Who has popped an entry holds a lease that PostgreSQL knows, with all that an agent needs."""
    front.stock(10)

    async def scene(desk: Desk) -> None:
        await desk.stocked()
        (task,) = await desk.claim()
        row = task_row(postgres, task.task)
        assert (row["status"], row["session_id"]) == ("working", 0)
        assert str(row["lease_id"]) == task.lease
        assert (task.campaign, task.attempt) == (front.campaign, 1)
        assert msgspec.json.decode(msgspec.json.encode(task.payload)) == {"n": 0}
        assert desk.pool.counters.hits == 1

    play(scene)


def test_claim_that_leaves_the_campaign_out_gets_nothing_of_it(front: Front, play: Play) -> None:
    """It is made in PostgreSQL at once, and costs no pop; of another revision it gets some."""
    front.stock(10)

    async def scene(desk: Desk) -> None:
        await desk.stocked()
        left_out, changed = ((front.campaign, 2),), ((front.campaign, 3),)
        without = replace(ALL, without=left_out)
        assert not desk.pool.has_entries(without)
        assert not desk.pool.submit(1, "lease", 1, without, lambda _: None)
        assert desk.pool.has_entries(replace(ALL, without=changed))

    play(scene)


def test_claims_that_arrive_together_share_a_pop(front: Front, play: Play) -> None:
    """A command for each would cost a gateway most of what it has."""
    front.stock(200)

    def scripts_run() -> int:
        stats: dict[str, Any] = front.server.admin.info("commandstats")
        return int(stats["cmdstat_evalsha"]["calls"])

    async def scene(desk: Desk) -> None:
        await desk.stocked()
        before = scripts_run()
        told = await asyncio.gather(*(desk.ask(session) for session in range(100)))
        assert scripts_run() == before + 1
        tasks = [task.task for one in told for task in one]
        assert tasks == sorted(set(tasks)), "each task once, in order"
        assert len(tasks) == 100

    play(scene)


def test_claims_get_no_more_than_they_want_and_than_there_is(front: Front, play: Play) -> None:
    """First come, first served; who gets nothing is told so, to ask PostgreSQL."""
    front.stock(8)

    async def scene(desk: Desk) -> None:
        await desk.stocked()
        told = await asyncio.gather(*(desk.ask(session, want=3) for session in range(4)))
        assert [len(one) for one in told] == [3, 3, 2, 0]
        assert not desk.pool.has_entries(ALL)
        assert await desk.claim() == []
        assert (desk.pool.counters.hits, desk.pool.counters.misses) == (3, 2)

    play(scene)


def test_many_claims_are_answered_out_of_the_hand_and_the_rest_goes_back(
    front: Front, play: Play, postgres: Postgres
) -> None:
    """Where many claim, most wait for no pop; when they stop, nothing is kept from the others."""
    front.stock(1_000)

    async def scene(desk: Desk) -> None:
        await desk.stocked()
        at_once = claims = 0
        tasks: list[int] = []

        def is_popped_ahead() -> bool:
            return desk.pool.counters.popped > len(tasks)

        while not (is_popped_ahead() and at_once):
            told = desk.ask(claims)
            claims += 1
            at_once += told.done()
            tasks += [task.task for task in await told]
            assert claims < 1_000
        assert len(tasks) == len(set(tasks)) == claims
        held = "select count(*) from taskq.task where status = 'working'"
        await until(lambda: value(postgres, held) == claims + front.left())
        waiting = "select min(attempt) from taskq.task where status = 'waiting'"
        assert value(postgres, waiting) == 0, "it was no attempt"

    play(scene)


def test_large_claims_do_not_make_a_pop_too_large(front: Front, play: Play) -> None:
    """A thousand tasks at a time is the limit, as for a claim in PostgreSQL."""
    front.stock(1_000)

    async def scene(desk: Desk) -> None:
        await desk.stocked()
        told = await asyncio.gather(*(desk.ask(session, want=400) for session in range(3)))
        assert [len(one) for one in told] == [400, 400, 200]

    play(scene)


def test_repeated_claim_gets_the_same_tasks_again(front: Front, play: Play) -> None:
    """An answer that is lost on its way to the agent costs nothing."""
    front.stock(10)

    async def scene(desk: Desk) -> None:
        await desk.stocked()
        lease = next(leases)
        first, again = await asyncio.gather(desk.ask(1, 2, lease), desk.ask(1, 2, lease))
        assert len(first) == 2
        assert again == first, "while it is under way"
        assert plain(await desk.claim(1, 2, lease)) == plain(first)
        assert front.left() == 8
        assert await desk.claim(1, 2) != first, "another lease id is another claim"
        assert plain(await desk.claim(1, 2, lease)) != plain(first), "that one was superseded"

    play(scene)


def test_claim_that_got_nothing_is_served_when_it_is_repeated(front: Front, play: Play) -> None:
    """PostgreSQL may be away; what it handed out under this lease id, the next beat gives back."""

    async def scene(desk: Desk) -> None:
        lease = next(leases)
        assert await desk.claim(1, 1, lease) == []
        front.stock(10)
        await desk.stocked()
        assert len(await desk.claim(1, 1, lease)) == 1
        assert front.left() == 9

    play(scene)


def test_list_that_is_filled_is_noticed(front: Front, play: Play) -> None:
    """A campaign that is asked for in vain is made known to the refiller, and looked at again."""

    async def scene(desk: Desk) -> None:
        assert not desk.pool.has_entries(ALL)
        wanted = str(front.campaign).encode()

        def is_wanted() -> bool:
            assert not desk.pool.has_entries(ALL)
            return bool(front.server.admin.smembers(front.keys.wanted) == {wanted})

        await until(is_wanted)
        assert front.server.admin.llen(front.keys.wake) == 1
        front.stock(10)
        await desk.stocked()
        assert desk.pool.depth == 10
        assert len(await desk.claim()) == 1

    play(scene)


def test_agent_gets_tasks_of_campaigns_that_it_serves_only(
    queue: Client, front: Front, play: Play
) -> None:
    """Each serving has its campaigns; an entry that was moved to another list is not handed out."""
    other = queue.create_campaign(CampaignSpec("/other", handler=NEVER_RUN))
    other.seed({"n": number} for number in range(10))
    moved = front.stock(2)
    front.server.admin.delete(front.keys.tasks(front.campaign))
    front.push(moved[0], campaign=other.campaign_id)

    async def scene(desk: Desk) -> None:
        serving = Scope("/other")
        await desk.stocked(serving)
        assert not desk.pool.has_entries(Scope("/c"))
        assert await desk.ask(serving=serving) == []
        assert desk.pool.counters.forged == 1

    play(scene)


def test_old_entries_are_not_handed_out_and_their_tasks_wait_again(
    front: Front, play: Play, postgres: Postgres
) -> None:
    """In the second half of the pool's time the agent could not make the lease its own in time."""
    front.double.begin(pool_s=2 * STALL_S)
    front.begin()
    front.stock(3)

    async def scene(desk: Desk) -> None:
        await desk.stocked()
        assert len(await desk.claim()) == 1
        age = "select extract(epoch from clock_timestamp() - min(claimed_at)) from taskq.task"
        await until(lambda: value(postgres, age) > STALL_S + 0.1)
        assert await desk.claim(want=2) == []
        assert desk.pool.counters.stale == 2
        assert desk.pool.breaker.closed, "they are genuine: nobody has done wrong"
        await until(lambda: in_pool(postgres) == 1)

    play(scene)


def test_garbage_in_the_lists_is_dropped_and_leaves_claims_to_postgresql(
    front: Front, play: Play
) -> None:
    """Who can write into Redis can slow the queue down and do nothing else."""
    front.stock(1)
    garbage = [b"", b"x", b"\xff" * 64, b"0" * 32 + b"[1,2,3]", front.stock(1)[0][:-1] + b" "]
    front.server.admin.delete(front.keys.tasks(front.campaign))
    front.push(*garbage * 20)

    async def claim_in_vain(desk: Desk) -> None:
        await desk.stocked()
        while desk.pool.breaker.closed:
            assert await desk.claim(want=5) == []
            await asyncio.sleep(0)

    async def scene(desk: Desk) -> None:
        await claim_in_vain(desk)
        assert desk.pool.counters.forged >= MOST_FORGED
        left = front.left()
        assert await desk.claim() == []
        assert front.left() == left > 0, "it is left alone for a while"
        await claim_in_vain(desk)
        assert 0 < front.left() < left, "again and again"
        front.server.admin.delete(front.keys.tasks(front.campaign))
        front.stock(1)
        await desk.stocked()
        assert len(await desk.claim()) == 1, "a genuine entry counts all the same"

    play(scene)
