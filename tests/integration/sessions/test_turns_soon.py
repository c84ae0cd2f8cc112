"""Agents that begin to wait just after tasks were added, and how soon turns follow one another."""

from __future__ import annotations

import asyncio
from typing import Any

from taskq import Campaign
from taskq.db.connections import Database
from tests.fixtures.queues import Hire
from tests.helpers.waiting import until
from tests.integration.sessions.test_waking import (  # noqa: F401  # fixtures, for all tests here
    ONE,
    OTHER,
    _working,
    campaign,
    counted,
    polled,
    turns,
    waiters,
)


async def test_claim_just_after_tasks_were_added_does_not_wait(
    campaign: Campaign,  # noqa: F811  # the fixture
    database: Database,
    hire: Hire,
) -> None:
    """Although nobody waited when they came, or only somebody else was asked for."""
    async with polled(database, poll_s=60) as waker:
        campaign.seed([{"n": 1}])
        waker.poll_soon()
        (first,) = waiters(waker, ONE, 1)
        assert await first is True
        assert len(hire(campaign.path).claim(9)) == 1
        statements = counted(waker)
        (other,) = waiters(waker, OTHER, 1)
        campaign.seed([{"n": 2}])
        waker.poll_soon()
        await turns(statements, 1)
        (second,) = waiters(waker, ONE, 1)
        assert await second is True
        other.cancel()
        await asyncio.wait([other])


async def test_turn_that_waits_for_the_server_is_no_reason_to_rest_longer(
    database: Database,
) -> None:
    """A busy server answers late, and those who wait for single calls would wait ten times that."""
    async with polled(database) as waker:
        statements = counted(waker)
        (future,) = waiters(waker, ONE, 1)
        await turns(statements, 3)
        usual_s = waker._turn_s  # noqa: SLF001 - the rest is ten times that
        rows = waker._connection.rows  # noqa: SLF001 - to delay it

        async def late(name: str, /, **values: Any) -> list[dict[str, Any]]:
            await asyncio.sleep(0.2)
            return await rows(name, **values)

        waker._connection.rows = late  # type: ignore[method-assign]  # noqa: SLF001
        await turns(statements, 2)
        assert waker._turn_s < max(0.1, 4 * usual_s)  # noqa: SLF001
        future.cancel()
        await asyncio.wait([future])


async def test_agent_that_has_looked_since_the_last_tasks_came_causes_no_turn(
    campaign: Campaign,  # noqa: F811  # the fixture
    database: Database,
    hire: Hire,
) -> None:
    """The turn would find nothing, and its rest would delay the turn for the next tasks."""
    async with polled(database, poll_s=60) as waker:
        loop = asyncio.get_running_loop()
        statements = counted(waker)
        (other,) = waiters(waker, OTHER, 1, unfinished=0)
        (first,) = waiters(waker, ONE, 1)
        campaign.seed([{"n": 1}])
        waker.poll_soon()
        assert await first is True
        assert len(hire(campaign.path).claim(9)) == 1
        second = asyncio.ensure_future(waker.wait(ONE, 20, drawn_at=loop.time()))
        await until(lambda: waker.has_waiting(ONE) and waker._timer is not None)  # noqa: SLF001
        assert waker._timer is not None  # noqa: SLF001  # of the next turn
        assert waker._timer.when() > loop.time() + 30  # noqa: SLF001
        campaign.seed([{"n": 2}])
        waker.poll_soon()
        assert await second is True
        assert statements == [2, 2]
        other.cancel()
        await asyncio.wait([other])
