"""Long polls: agents that wait cost next to nothing, and are woken when there is work."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq.dispatch.fair_share import Scope
from taskq.dispatch.long_poll import LongPoll
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres, value
from tests.helpers.waiting import BUSY_S, until

POLL_S = 0.05
CANNOT = "cannot look for tasks to claim, trying again"
WORKS = "looking for tasks to claim works again"
ALL, ONE, OTHER = Scope("/"), Scope("/c"), Scope("/other")


@pytest.fixture
def campaign(queue: Client, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    """Give a campaign that agents may choose, with one task that is being worked on."""
    monkeypatch.setattr("taskq.db.connections.NOBODY_S", 0.0)  # announce each time
    return servable(queue, tasks=1)


@pytest.fixture(autouse=True)
def _working(campaign: Campaign, hire: Hire) -> None:
    """See to it that something is unfinished and nothing can be claimed."""
    assert len(hire(campaign.path).claim(1)) == 1


@asynccontextmanager
async def polled(database: Database, poll_s: float = POLL_S) -> AsyncIterator[LongPoll]:
    """Give a `LongPoll` for which nobody waits at the end."""
    async with LongPoll(database, poll_s) as waker:
        yield waker
    assert waker.waiting == 0


def waiters(
    waker: LongPoll,
    serving: Scope,
    count: int,
    seconds: float = 20.0,
    unfinished: int | None = None,
) -> list[asyncio.Future[bool]]:
    """Let so many wait."""
    return [asyncio.ensure_future(waker.wait(serving, seconds, unfinished)) for _ in range(count)]


async def turns(statements: list[int], count: int) -> None:
    """Wait for so many more turns to be begun."""
    before = len(statements)
    await until(lambda: len(statements) >= before + count)


def counted(waker: LongPoll) -> list[int]:
    """Return a list that grows by the servings that each statement asks for."""
    sizes: list[int] = []
    line = waker._connection  # noqa: SLF001 - to see what goes over it
    rows = line.rows

    async def count(name: str, /, **values: Any) -> list[dict[str, Any]]:
        if name == "claimable":
            sizes.append(len(json.loads(values["servings"])))
        return await rows(name, **values)

    line.rows = count  # type: ignore[method-assign]  # passes everything on
    return sizes


@pytest.mark.thorough
async def test_as_many_are_woken_as_there_are_tasks(campaign: Campaign, database: Database) -> None:
    """Those who came first; the others go on waiting, whatever they serve."""
    async with polled(database, poll_s=0.5) as waker:
        statements = counted(waker)
        first = waiters(waker, ONE, 3)
        second = waiters(waker, ALL, 3)
        third = waiters(waker, ONE, 3)
        await turns(statements, 2)
        assert waker.waiting == 9
        campaign.seed({"n": n} for n in range(1, 5))
        woken, others = [*first, second[0]], [*second[1:], *third]
        await until(lambda: all(future.done() for future in woken))
        assert [future.result() for future in woken] == [True] * 4
        assert not any(other.done() for other in others)
        assert waker.waiting == 5


async def test_nobody_is_woken_for_what_only_others_can_claim(
    queue: Client, database: Database
) -> None:
    """By path, tags, and time limit."""
    gpu = servable(queue, "/gpu", requires=("gpu",), time_limit_s=1_000)
    async with polled(database) as waker:
        statements = counted(waker)
        fitting = Scope("/gpu", ("gpu", "mem=8"), 2_000.0)
        others = [ONE, ALL, Scope("/gpu"), Scope("/", ("gpu",), 500.0)]
        # Who stays whatever is left: the others learn that it is in vain.
        waiting = [waiters(waker, serving, 2, unfinished=0) for serving in [*others, fitting]]
        gpu.seed([{"n": 1}])
        await until(waiting[-1][0].done)
        await turns(statements, 3)
        assert not any(future.done() for some in waiting[:-1] for future in some)


async def test_however_many_wait_there_is_one_statement_a_turn(database: Database) -> None:
    """It names each serving once; those with nearly the same lifetime are one."""
    async with polled(database) as waker:
        statements = counted(waker)
        for number in range(500):
            waiters(waker, Scope("/c", (), 3_600.0 + number / 10), 1)
        waiters(waker, ALL, 500)
        await turns(statements, 3)
        assert set(statements) == {2}


async def test_nobody_asks_for_nobody(database: Database) -> None:
    """Once the last one has gone there are no more statements, until somebody comes."""
    async with polled(database) as waker:
        statements = counted(waker)
        for future in waiters(waker, ONE, 3, seconds=3 * POLL_S):
            assert await future is False
        asked = len(statements)
        await asyncio.sleep(4 * POLL_S)
        assert len(statements) == asked
        waiters(waker, ONE, 1)
        await turns(statements, 1)


async def test_time_is_up_when_it_is_up(database: Database) -> None:
    """Each has its own; nobody waits for a turn of the clock."""
    async with polled(database, poll_s=60) as waker:
        loop = asyncio.get_running_loop()
        began = loop.time()
        long, short = waiters(waker, ONE, 1), waiters(waker, ONE, 1, seconds=0.1)
        assert await short[0] is False
        assert 0.1 <= loop.time() - began < BUSY_S
        assert not long[0].done()
        assert await waker.wait(ONE, 0) is False


async def test_cancelled_waits_leave_nothing_behind(campaign: Campaign, database: Database) -> None:
    """Nor is a task lost on them: who stays is woken."""
    async with polled(database) as waker:
        gone, stays = waiters(waker, ONE, 100), waiters(waker, ONE, 1)
        await asyncio.sleep(0)
        assert waker.waiting == 101
        for future in gone:
            future.cancel()
        await asyncio.wait(gone)
        assert waker.waiting == 1
        campaign.seed([{"n": 1}])
        assert await stays[0] is True
        assert not waker.has_waiting(ONE)


async def test_all_are_woken_when_nothing_is_unfinished(
    campaign: Campaign, queue: Client, database: Database
) -> None:
    """Below the path that they serve; but not those who know it already."""
    servable(queue, "/other").seed([{"n": 1}])
    queue.campaign("/other").pause()
    async with polled(database) as waker:
        statements = counted(waker)
        waiting, elsewhere, above = (
            waiters(waker, ONE, 5, unfinished=1),
            waiters(waker, OTHER, 5, unfinished=1),
            waiters(waker, ALL, 5),
        )
        await turns(statements, 2)
        assert waker.waiting == 15
        campaign.cancel()
        assert await asyncio.gather(*waiting) == [True] * 5
        know = waiters(waker, ONE, 5, unfinished=0)
        await turns(statements, 3)
        assert not any(future.done() for future in (*elsewhere, *above, *know))


async def test_removed_campaign_wakes_who_waits_for_it(
    campaign: Campaign, database: Database
) -> None:
    """The next claim tells them; nobody else is disturbed by it."""
    async with polled(database) as waker:
        nowhere, here = waiters(waker, Scope("/removed"), 2), waiters(waker, ONE, 1)
        assert await asyncio.gather(*nowhere) == [True] * 2
        assert not here[0].done()
        campaign.seed([{"n": 1}])
        assert await here[0] is True


async def test_draining_lets_everybody_go_at_once(database: Database) -> None:
    """Without a statement, and those too who come later."""
    async with polled(database, poll_s=60) as waker:
        waiting = waiters(waker, ONE, 1_000)
        await asyncio.sleep(0)
        waker.drain()
        assert await asyncio.gather(*waiting) == [False] * 1_000
        assert await waker.wait(ONE, 50) is False


async def test_poke_is_seen_long_before_the_next_turn(
    campaign: Campaign, database: Database
) -> None:
    """Many of them at once are one statement."""
    async with polled(database, poll_s=60) as waker:
        statements = counted(waker)
        (future,) = waiters(waker, ONE, 1)
        await asyncio.sleep(0)
        campaign.seed([{"n": 1}])
        for _ in range(100):
            waker.poll_soon()
        assert await future is True
        assert statements == [1]
        waker.poll_soon()  # nobody waits: nothing to look for


@pytest.mark.thorough
async def test_database_that_goes_away_is_asked_on(
    campaign: Campaign,
    database: Database,
    postgres: Postgres,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log has it once, and clients that wait are woken when the database is back."""
    logger = "taskq.dispatch.long_poll"
    caplog.set_level(logging.WARNING, logger)

    def logged() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name == logger]

    async with polled(database) as waker:
        statements = counted(waker)
        (future,) = waiters(waker, ONE, 1)
        await turns(statements, 2)
        postgres.execute("alter function taskq.claimable(jsonb, boolean) rename to claimable_away")
        await turns(statements, 4)
        assert [text.split(":")[0] for text in logged()] == [CANNOT]
        postgres.execute("alter function taskq.claimable_away(jsonb, boolean) rename to claimable")
        campaign.seed([{"n": 1}])
        assert await future is True
        assert [text.split(":")[0] for text in logged()] == [CANNOT, WORKS]


async def test_long_poll_reports_scopes_with_new_tasks_before_it_wakes_claims(
    campaign: Campaign, database: Database
) -> None:
    """Otherwise a note that nothing waits would send the woken agents away."""
    found: list[Scope] = []
    async with LongPoll(database, POLL_S, found=found.append) as waker:
        waiting = waiters(waker, ONE, 1) + waiters(waker, Scope("/c", (), 5_000.0), 1)
        other = waiters(waker, OTHER, 1, unfinished=0)
        campaign.seed([{"n": 1}, {"n": 2}])
        assert await asyncio.gather(*waiting) == [True, True]
        assert set(found) == {ONE, Scope("/c", (), 5_000.0).rounded()}
        assert not other[0].done()


@pytest.mark.parametrize("broken", ["5", '[{"path": "/", "lifetime_s": "x"}]', '[{"offers": 3}]'])
def test_servings_of_another_form_are_refused(broken: str, postgres: Postgres) -> None:
    """With an error of their own class."""
    with pytest.raises(psycopg.Error) as refused:
        postgres.execute("select * from taskq.claimable(%s)", [broken])
    assert refused.value.sqlstate == "TQ400"


def test_each_task_is_counted_for_all_who_can_claim_it_and_once(
    campaign: Campaign, queue: Client, postgres: Postgres, hire: Hire
) -> None:
    """Within the limit of running tasks; not where it is closed, nor without a handler.

    What has no handler is not waited for either.
    """
    campaign.seed({"n": n} for n in range(1, 4))
    servable(queue, "/c/two", max_running=2, tasks=5)
    hire("/c/two").claim(1)
    servable(queue, "/c/shut").seed([{"n": 1}])
    queue.campaign("/c/shut").pause()
    queue.create_campaign("/c/no-handler").seed([{"n": 1}])
    servings = [
        {"path": path, "lifetime_s": None, "offers": []}
        for path in ("/c", "/", "/c/two", "/c/shut", "/nowhere", "/c")
    ]
    row = postgres.execute("select * from taskq.claimable(%s)", [json.dumps(servings)]).fetchone()
    assert row is not None
    assert sorted(row["claimable"]) == [[[0, 1, 2, 5], 1], [[0, 1, 5], 3]]
    assert row["unfinished"] == [10, 10, 5, 1, 0, 10]


def test_campaign_that_an_agent_leaves_out_counts_for_the_others_only(
    campaign: Campaign, queue: Client, postgres: Postgres
) -> None:
    """As long as it has the revision that the agent could not run; all of it is unfinished."""
    campaign.seed({"n": n} for n in range(1, 4))
    servable(queue, "/c/two").seed([{"n": 1}])
    row = queue.database.row("campaign_by_id", campaign=campaign.campaign_id)
    assert row is not None
    number, revision = row["campaign"], row["revision"]
    servings: list[dict[str, Any]] = [{"path": "/c", "lifetime_s": None, "offers": []}] * 3
    servings[1] = servings[1] | {"without": [[number, revision]]}
    servings[2] = servings[2] | {"without": [[number, revision + 1], [number + 1_000, 1]]}
    found = postgres.execute("select * from taskq.claimable(%s)", [json.dumps(servings)]).fetchone()
    assert found is not None
    assert sorted(found["claimable"]) == [[[0, 1, 2], 1], [[0, 2], 3]]
    assert found["unfinished"] == [5, 5, 5]


@pytest.mark.thorough
@pytest.mark.parametrize("statistics", ["absent", "true"])
def test_turn_reads_campaigns_and_counters_by_index_and_no_task(
    statistics: str, queue: Client, postgres: Postgres
) -> None:
    """Once for each path, however many servings have it."""
    for number in range(100):
        servable(queue, f"/many/{number}").seed([{"n": 1}])
    postgres.execute("select taskq.fold('0')")
    if statistics == "true":
        postgres.execute("analyze")
    servings = [
        {"path": path, "lifetime_s": 2.0**step, "offers": []}
        for path in ("/many", "/many/1")
        for step in range(20)
    ]
    question = "select * from taskq.claimable(%s)"
    postgres.execute(question, [json.dumps(servings)])  # planning reads the catalogues
    with watched(postgres) as seen:
        postgres.execute(question, [json.dumps(servings)])
    tables = seen.to("campaign", "counter", "delta", "task", "spec", "attempt")
    assert tables.access_paths <= {
        "campaign by campaign_path_key",
        "campaign by campaign_pkey",
        "campaign by campaign_closed",
        "campaign by campaign_parent",
        "campaign by campaign_owner",
        "counter by counter_pkey",
        "delta by delta_xid",
    }
    assert sum(access.rows for access in tables.accesses) <= 500
    assert value(postgres, "select count(*) from taskq.delta") <= 300
