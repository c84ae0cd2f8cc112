"""Claims of a host that may not have what waits: nobody who shares statements with it pays."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq.dispatch.batching import Batcher
from taskq.dispatch.fair_share import Scope
from taskq.dispatch.long_poll import LongPoll
from taskq_agent.lease_ids import LeaseIds
from taskq_agent.protocol import Answer, Request
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres, promote
from tests.integration.claims.test_retried_elsewhere import AT_ONCE

SERVING = Scope("/c")


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give a campaign that agents may choose, without tasks."""
    return servable(queue, retry=AT_ONCE)


class Claims:
    """Claims of one task each, under new lease ids."""

    def __init__(self, batcher: Batcher, serving: Scope = SERVING) -> None:
        self._batcher = batcher
        self._serving = serving
        self._lease_ids = LeaseIds()

    async def of(self, *sessions: int) -> list[Answer]:
        """Return the answers to claims that arrive together."""
        requests = [Request(session, want=1, lease=self._lease_ids()) for session in sessions]
        return await asyncio.gather(
            *(self._batcher.exchange(request, self._serving) for request in requests)
        )


def fail_on(hire: Hire, postgres: Postgres, host: str, tasks: int, path: str = "/c") -> int:
    """Let so many tasks fail on a host, and wait again; return the session of its agent."""
    agent = hire(path, host=host)
    for task in agent.claim(tasks):
        agent.fail(task)
    assert promote(postgres) == tasks
    return agent.session


async def test_claim_that_must_avoid_what_waits_strikes_no_campaign_off(
    campaign: Campaign, database: Database, hire: Hire, postgres: Postgres, statements: Counter[str]
) -> None:
    """However often a bad host asks, the healthy one's claims are always answered with tasks."""
    campaign.seed({"n": n} for n in range(12))
    healthy = hire(host="healthy").session
    bad = fail_on(hire, postgres, "bad", 12)
    async with Batcher(database) as batcher:
        claims = Claims(batcher)
        statements.clear()
        for number in range(8):
            (refused,) = await claims.of(bad)
            assert refused.tasks == ()
            assert [len(answer.tasks) for answer in await claims.of(healthy)] == [1], (
                f"claim {number}"
            )
            assert refused.orders.claim_after_s, "it is asked to wait"
        # Together with it, too, in whichever order they stand.
        together = [await claims.of(bad, healthy), await claims.of(healthy, bad)]
        assert [[len(answer.tasks) for answer in some] for some in together] == [[0, 1], [1, 0]]
        assert [len(answer.tasks) for answer in await claims.of(healthy)] == [1]
        assert statements["servable"] <= 2, "nothing was drawn anew"


async def test_claim_that_must_avoid_what_waits_gets_what_waits_elsewhere(
    campaign: Campaign, queue: Client, database: Database, hire: Hire, postgres: Postgres
) -> None:
    """In the same exchange; and of the same campaign, what is new."""
    campaign.seed({"n": n} for n in range(4))
    hire("/", host="healthy")
    bad = fail_on(hire, postgres, "bad", 4)
    wide = hire("/", host="bad").session
    other = queue.create_campaign(replace(campaign.spec(), path="/other"))
    async with Batcher(database) as batcher:
        everywhere = Claims(batcher, Scope("/"))
        (refused,) = await everywhere.of(wide)
        assert refused.tasks == ()
        other.seed({"n": n} for n in range(20))
        batcher.forget(Scope("/"))
        for _ in range(20):
            ((task,),) = [answer.tasks for answer in await everywhere.of(wide)]
            assert task.campaign == other.campaign_id
        campaign.seed([{"new": 1}])
        (fresh,) = await Claims(batcher).of(bad)
        assert [task.payload for task in fresh.tasks] == [{"new": 1}]


async def test_task_that_other_claims_just_hold_does_not_count_as_waiting(
    campaign: Campaign, database: Database, hire: Hire, postgres: Postgres, statements: Counter[str]
) -> None:
    """If all other tasks are delayed or worked on, one claim in a second looks."""
    campaign.seed({"n": n} for n in range(2))
    healthy = hire(host="healthy").session
    bad = fail_on(hire, postgres, "bad", 2)
    async with Batcher(database) as batcher:
        claims = Claims(batcher)
        assert [len(answer.tasks) for answer in await claims.of(healthy)] == [1]
        assert [len(answer.tasks) for answer in await claims.of(healthy)] == [1]
        statements.clear()
        for _ in range(6):
            (empty,) = await claims.of(bad)
            assert empty.tasks == ()
            assert empty.orders.claim_after_s is None
            assert empty.unfinished == 2
        assert statements["exchange"] <= 1 + statements["servable"]


async def test_claim_that_is_woken_in_vain_wakes_the_next(
    campaign: Campaign, database: Database
) -> None:
    """To the next of its queue, at once; to a bounded number of them between two turns."""
    campaign.seed([{"n": 1}])
    async with LongPoll(database, 60.0) as waker:
        waiting = [asyncio.ensure_future(waker.wait(SERVING, 60.0, 0)) for _ in range(100)]
        await asyncio.sleep(0)
        waker.poll_soon()
        assert await waiting[0]
        for number in range(1, 4):
            assert not waiting[number].done()
            waker.pass_on(SERVING)
            assert await waiting[number]
        waker.pass_on(Scope("/other"))
        for _ in range(200):
            waker.pass_on(SERVING)
        assert all(await asyncio.gather(*waiting[:65]))
        assert waker.waiting == 35


async def test_claims_find_what_has_failed_where_there_is_too_little_else(
    campaign: Campaign, database: Database, hire: Hire, postgres: Postgres
) -> None:
    """In one statement, though the connection was not to look for it yet."""
    campaign.seed({"n": n} for n in range(6))
    healthy = [hire(host="healthy").session for _ in range(3)]
    async with Batcher(database) as batcher:
        claims = Claims(batcher)
        assert [len(answer.tasks) for answer in await claims.of(*healthy[:2])] == [1, 1]
        fail_on(hire, postgres, "bad", 2)
        assert [len(answer.tasks) for answer in await claims.of(*healthy)] == [1, 1, 1]
