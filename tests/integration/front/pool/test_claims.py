"""Claims from the front are instant, and give what PostgreSQL has leased."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import msgspec
import pytest

from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq.dispatch.exchange_request import session_values
from taskq.dispatch.fair_share import Scope
from taskq.front.popper import MOST_FORGED
from taskq_agent.protocol import Hello
from tests.fixtures.front import in_pool
from tests.helpers.campaigns import servable
from tests.helpers.front_harness import ALL, PoolClient, ScriptedFront, leases, task_leases
from tests.helpers.postgres import Postgres, task_row, value
from tests.helpers.waiting import until

#: For so long a busy machine may leave a test alone.
STALL_S = 2.0


async def test_claim_gives_a_task_that_is_leased_already(
    front: ScriptedFront, pool_client: PoolClient, postgres: Postgres
) -> None:
    """Who has popped an entry holds a lease that PostgreSQL knows, with all that an agent needs."""
    front.fill(10)
    async with pool_client:
        await pool_client.wait_until_filled()
        (task,) = await pool_client.claim()
        row = task_row(postgres, task.task)
        assert (row["status"], row["session_id"]) == ("working", 0)
        assert str(row["lease_id"]) == task.lease
        assert (task.campaign, task.attempt) == (front.campaign, 1)
        assert msgspec.json.decode(msgspec.json.encode(task.payload)) == {"n": 0}
        assert pool_client.pool.counters.hits == 1


@pytest.mark.parametrize("payload", ['{"n": 1e5000}', '{"n": ' + "[" * 300 + "]" * 300 + "}"])
async def test_payload_that_nobody_can_read_is_handed_to_nobody(
    front: ScriptedFront,
    pool_client: PoolClient,
    postgres: Postgres,
    campaign: Campaign,
    database: Database,
    payload: str,
) -> None:
    """It fails for good and says why, as without a front; the tasks with it are handed out."""
    unread = next(iter(campaign.tasks("waiting"))).key
    postgres.execute("update taskq.spec set payload = %s where key = %s", [payload, unread])
    front.fill(4)
    hello = Hello(str(uuid.uuid4()), campaign.path, "a", "h", 1, "s", 1, "1")
    session = int(database.value("open_session", **session_values(hello, 120.0)))
    async with pool_client:
        await pool_client.wait_until_filled()
        claimed = [task for _ in range(4) for task in await pool_client.claim(session)]
        assert len(claimed) == 3
        assert unread not in {task.key for task in claimed}
        await until(lambda: campaign.status().failed == 1)
    (attempt,) = campaign.attempts(unread)
    assert (attempt.outcome, attempt.error_class) == ("failed", "payload-unreadable")


async def test_claim_that_leaves_the_campaign_out_gets_nothing_of_it(
    front: ScriptedFront, pool_client: PoolClient
) -> None:
    """It is made in PostgreSQL at once, and costs no pop; of another revision it gets some."""
    front.fill(10)
    async with pool_client:
        await pool_client.wait_until_filled()
        left_out, changed = ((front.campaign, 2),), ((front.campaign, 3),)
        without = ALL._replace(without=left_out)
        assert not pool_client.pool.has_entries(without)
        assert not pool_client.pool.submit(1, "lease", 1, without, lambda _: None)
        assert pool_client.pool.has_entries(ALL._replace(without=changed))


async def test_claims_that_arrive_together_share_a_pop(
    front: ScriptedFront, pool_client: PoolClient
) -> None:
    """A command for each would cost a gateway most of what it has."""
    front.fill(200)

    def scripts_run() -> int:
        stats: dict[str, Any] = front.server.admin.info("commandstats")
        return int(stats["cmdstat_evalsha"]["calls"])

    async with pool_client:
        await pool_client.wait_until_filled()
        before = scripts_run()
        answers = await asyncio.gather(*(pool_client.ask(session) for session in range(100)))
        assert scripts_run() == before + 1
        tasks = [task.task for answer in answers for task in answer]
        assert tasks == sorted(set(tasks)), "each task once, in order"
        assert len(tasks) == 100


async def test_claims_get_no_more_than_they_want_and_than_there_is(
    front: ScriptedFront, pool_client: PoolClient
) -> None:
    """First come, first served; clients that get nothing ask PostgreSQL."""
    front.fill(8)
    async with pool_client:
        await pool_client.wait_until_filled()
        answers = await asyncio.gather(*(pool_client.ask(session, want=3) for session in range(4)))
        assert [len(answer) for answer in answers] == [3, 3, 2, 0]
        assert not pool_client.pool.has_entries(ALL)
        assert await pool_client.claim() == []
        assert (pool_client.pool.counters.hits, pool_client.pool.counters.misses) == (3, 2)


async def test_many_claims_are_answered_out_of_the_hand_and_the_rest_goes_back(
    front: ScriptedFront, pool_client: PoolClient, postgres: Postgres
) -> None:
    """Where many claim, most wait for no pop; when they stop, nothing is kept from the others."""
    front.fill(1_000)
    async with pool_client:
        await pool_client.wait_until_filled()
        at_once = claims = 0
        tasks: list[int] = []

        def is_popped_ahead() -> bool:
            return pool_client.pool.counters.popped > len(tasks)

        while not (is_popped_ahead() and at_once):
            answers = pool_client.ask(claims)
            claims += 1
            at_once += answers.done()
            tasks += [task.task for task in await answers]
            assert claims < 1_000
        assert len(tasks) == len(set(tasks)) == claims
        held = "select count(*) from taskq.state where status = 'working'"
        await until(lambda: value(postgres, held) == claims + front.left())
        waiting = "select min(attempt) from taskq.state where status = 'waiting'"
        assert value(postgres, waiting) == 0, "it was no attempt"


async def test_large_claims_do_not_make_a_pop_too_large(
    front: ScriptedFront, pool_client: PoolClient
) -> None:
    """A thousand tasks at a time is the limit, as for a claim in PostgreSQL."""
    front.fill(1_000)
    async with pool_client:
        await pool_client.wait_until_filled()
        answers = await asyncio.gather(
            *(pool_client.ask(session, want=400) for session in range(3))
        )
        assert [len(answer) for answer in answers] == [400, 400, 200]


async def test_repeated_claim_gets_the_same_tasks_again(
    front: ScriptedFront, pool_client: PoolClient
) -> None:
    """An answer that is lost on its way to the agent costs nothing."""
    front.fill(10)
    async with pool_client:
        await pool_client.wait_until_filled()
        lease = next(leases)
        first, again = await asyncio.gather(
            pool_client.ask(1, 2, lease), pool_client.ask(1, 2, lease)
        )
        assert len(first) == 2
        assert again == first, "while it is under way"
        assert task_leases(await pool_client.claim(1, 2, lease)) == task_leases(first)
        assert front.left() == 8
        assert await pool_client.claim(1, 2) != first, "another lease id is another claim"
        assert task_leases(await pool_client.claim(1, 2, lease)) != task_leases(first), (
            "that one was superseded"
        )


async def test_claim_that_got_nothing_is_served_when_it_is_repeated(
    front: ScriptedFront, pool_client: PoolClient
) -> None:
    """PostgreSQL may be away; what it handed out under this lease id, the next beat gives back."""
    async with pool_client:
        lease = next(leases)
        assert await pool_client.claim(1, 1, lease) == []
        front.fill(10)
        await pool_client.wait_until_filled()
        assert len(await pool_client.claim(1, 1, lease)) == 1
        assert front.left() == 9


async def test_list_that_is_filled_is_noticed(
    front: ScriptedFront, pool_client: PoolClient
) -> None:
    """A campaign that is asked for in vain is made known to the refiller, and looked at again."""
    async with pool_client:
        assert not pool_client.pool.has_entries(ALL)
        wanted = str(front.campaign).encode()

        def is_wanted() -> bool:
            assert not pool_client.pool.has_entries(ALL)
            return bool(front.server.admin.smembers(front.keys.wanted) == {wanted})

        await until(is_wanted)
        assert front.server.admin.llen(front.keys.wake) == 1
        front.fill(10)
        await pool_client.wait_until_filled()
        assert pool_client.pool.depth == 10
        assert len(await pool_client.claim()) == 1


async def test_agent_gets_tasks_of_campaigns_that_it_serves_only(
    queue: Client, front: ScriptedFront, pool_client: PoolClient
) -> None:
    """Each serving has its campaigns; an entry that was moved to another list is not handed out."""
    other = servable(queue, "/other", tasks=10)
    moved = front.fill(2)
    front.server.admin.delete(front.keys.tasks(front.campaign))
    front.push(moved[0], campaign=other.campaign_id)
    async with pool_client:
        serving = Scope("/other")
        await pool_client.wait_until_filled(serving)
        assert not pool_client.pool.has_entries(Scope("/c"))
        assert await pool_client.ask(scope=serving) == []
        assert pool_client.pool.counters.forged == 1


@pytest.mark.thorough
async def test_old_entries_are_not_handed_out_and_their_tasks_wait_again(
    front: ScriptedFront, pool_client: PoolClient, postgres: Postgres
) -> None:
    """In the second half of the pool's time the agent could not make the lease its own in time."""
    front.scripted_pool.begin(pool_s=2 * STALL_S)
    front.begin()
    front.fill(3)
    async with pool_client:
        await pool_client.wait_until_filled()
        assert len(await pool_client.claim()) == 1
        age = "select extract(epoch from clock_timestamp() - min(claimed_at)) from taskq.state"
        await until(lambda: value(postgres, age) > STALL_S + 0.1)
        assert await pool_client.claim(want=2) == []
        assert pool_client.pool.counters.stale == 2
        assert pool_client.pool.breaker.closed, "they are genuine: nobody has done wrong"
        await until(lambda: in_pool(postgres) == 1)


async def test_garbage_in_the_lists_is_dropped_and_leaves_claims_to_postgresql(
    front: ScriptedFront, pool_client: PoolClient
) -> None:
    """Who can write into Redis can slow the queue down and do nothing else."""
    front.fill(1)
    garbage = [b"", b"x", b"\xff" * 64, b"0" * 32 + b"[1,2,3]", front.fill(1)[0][:-1] + b" "]
    front.server.admin.delete(front.keys.tasks(front.campaign))
    front.push(*garbage * 20)

    async def claim_in_vain(pool_client: PoolClient) -> None:
        await pool_client.wait_until_filled()
        while pool_client.pool.breaker.closed:
            assert await pool_client.claim(want=5) == []
            await asyncio.sleep(0)

    async with pool_client:
        await claim_in_vain(pool_client)
        assert pool_client.pool.counters.forged >= MOST_FORGED
        left = front.left()
        assert await pool_client.claim() == []
        assert front.left() == left > 0, "it is left alone for a while"
        await claim_in_vain(pool_client)
        assert 0 < front.left() < left, "again and again"
        front.server.admin.delete(front.keys.tasks(front.campaign))
        front.fill(1)
        await pool_client.wait_until_filled()
        assert len(await pool_client.claim()) == 1, "a genuine entry counts all the same"
