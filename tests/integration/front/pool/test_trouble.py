"""Claims go on at once in PostgreSQL when the front fails, and return to it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row

from taskq import Campaign
from taskq.db.connections import Database
from taskq.dispatch.batching import Batcher
from taskq.dispatch.endings import resolve
from taskq.dispatch.exchange_request import ExchangeRequest
from taskq.dispatch.fair_share import Scope
from taskq.front.address import FrontAddress
from taskq.front.buffer import KEEP_S
from taskq.front.pool import Pool
from taskq.front.redis import ANSWER_S
from taskq.gateway.fronted import Fronted
from taskq.gateway.statement_pool import StatementPool
from taskq_agent.protocol import Answer, Task
from tests.fixtures.redis_servers import RedisServer
from tests.helpers.front_harness import ALL, PoolClient, ScriptedFront, leases
from tests.helpers.postgres import Postgres, value
from tests.helpers.waiting import BUSY_S, until

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("trouble", ["killed", "hanging", "wrong type", "read-only"])
async def test_claims_go_on_without_the_front_and_return_to_it(
    front: ScriptedFront, pool_client: PoolClient, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    """No error and no long wait, whatever happens to Redis; and nobody has to do anything."""
    caplog.set_level(logging.WARNING, "taskq.front")
    admin, tasks = front.server.admin, front.keys.tasks(front.campaign)
    entries = front.fill(10)

    def begin_trouble() -> None:
        if trouble == "killed":
            front.server.kill()
        elif trouble == "hanging":
            front.server.freeze()
        elif trouble == "wrong type":
            admin.delete(tasks)
            admin.set(tasks, "no list")
        else:
            admin.replicaof("127.0.0.1", 1)

    def end_trouble() -> None:
        if trouble == "killed":
            front.server.start()
            front.begin()
            front.push(*entries[1:])
        elif trouble == "hanging":
            front.server.thaw()  # it runs the pop, whose answer nobody takes
            admin.delete(tasks)
            front.push(*entries[1:])
        elif trouble == "wrong type":
            admin.delete(tasks)
            front.push(*entries[1:])
        else:
            admin.replicaof("NO", "ONE")

    async with pool_client:
        await pool_client.wait_until_filled()
        assert len(await pool_client.claim()) == 1
        begin_trouble()
        began = time.monotonic()
        answers = await asyncio.gather(*(pool_client.ask(session) for session in range(200)))
        assert not any(answers)
        assert time.monotonic() - began < BUSY_S < 200 * ANSWER_S, "they wait together"
        assert not pool_client.pool.has_entries(ALL)
        at_once = pool_client.ask()
        assert at_once.done(), "nobody waits for what is known to be gone"
        assert await at_once == []
        await until(
            lambda: pool_client.pool.counters.errors >= 2 or pool_client.pool.has_entries(ALL)
        )
        assert await pool_client.claim() == []
        end_trouble()
        await pool_client.wait_until_filled()
        assert len(await pool_client.claim()) == 1
    fails = [record for record in caplog.records if "fails" in record.getMessage()]
    assert len(fails) >= 1
    assert len(fails) <= 3, "it is logged when it changes, not at each claim"


async def test_front_that_begins_after_the_gateway_is_found_soon(
    database: Database,
    redis_server: RedisServer,
    campaign: Campaign,
    pool_client: PoolClient,
    postgres: Postgres,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A gateway may well be started before the refiller; it asks at short intervals then."""
    monkeypatch.setattr("taskq.front.state.STATE_S", 3_600.0)
    asked = (
        "select count(*) from pg_stat_activity where datname = current_database()"
        " and pid <> pg_backend_pid() and query ~ 'servable'"
    )
    async with pool_client:
        assert not pool_client.pool.has_entries(ALL)
        await until(lambda: value(postgres, asked))  # and has asked for the front before
        ScriptedFront(database, redis_server, campaign).fill(1)
        await pool_client.wait_until_filled()
        assert len(await pool_client.claim()) == 1


async def test_flushed_front_is_used_again_once_it_has_begun_anew(
    front: ScriptedFront, pool_client: PoolClient
) -> None:
    """FLUSHALL at any moment costs time only: a new epoch is learned by itself."""
    front.fill(10)
    async with pool_client:
        await pool_client.wait_until_filled()
        front.server.admin.flushall()
        assert await pool_client.claim() == []
        assert not pool_client.pool.has_entries(ALL)
        assert pool_client.pool.breaker.closed, "the server is well"
        old = front.scripted_pool.entries(1)[0].encode()
        front.scripted_pool.begin()
        front.begin()
        (new,) = front.scripted_pool.entries(1)
        front.push(old, new.encode())
        await pool_client.wait_until_filled()
        (task,) = await pool_client.claim(want=2)
        assert task.task == front.scripted_pool.read(new).task
        assert pool_client.pool.counters.forged == 1, "an entry of the old epoch is none"
        assert pool_client.pool.counters.outdated > 0


@pytest.fixture
def cut_off(server_dsn: str, database: Database) -> Callable[[], AbstractContextManager[None]]:
    """Give a function that keeps everybody away from the database for the time of a block."""
    name = conninfo_to_dict(database.dsn)["dbname"]
    allow = sql.SQL("alter database {} allow_connections {}")

    @contextmanager
    def cut() -> Iterator[None]:
        with psycopg.connect(server_dsn, autocommit=True) as admin:
            admin.execute(allow.format(sql.Identifier(name), sql.SQL("false")))
            admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = %s and pid <> pg_backend_pid()",
                [name],
            )
            try:
                yield
            finally:
                admin.execute(allow.format(sql.Identifier(name), sql.SQL("true")))

    return cut


async def test_claims_go_on_from_the_front_while_postgresql_is_away(
    front: ScriptedFront,
    pool_client: PoolClient,
    cut_off: Callable[[], AbstractContextManager[None]],
) -> None:
    """Until the pool is empty, nobody notices that the database restarts."""
    front.fill(10)
    async with pool_client:
        await pool_client.wait_until_filled()
        with cut_off():
            gone_at = time.monotonic()
            while time.monotonic() < gone_at + 2.5:
                assert pool_client.pool.has_entries(ALL)
                await asyncio.sleep(0.05)
            assert len(await pool_client.claim()) == 1


async def test_tasks_popped_ahead_of_an_outage_go_back_after_it(
    front: ScriptedFront,
    pool_client: PoolClient,
    dsn: str,
    cut_off: Callable[[], AbstractContextManager[None]],
) -> None:
    """A campaign does not wait for the pool's deadline because of a few tasks popped ahead."""
    front.fill(1_000)
    async with pool_client:
        await pool_client.wait_until_filled()
        claims = 0
        while pool_client.pool.counters.popped == claims:
            claims += len(await pool_client.claim(claims))
        with cut_off():
            await asyncio.sleep(6 * KEEP_S)
        held = "select count(*) from taskq.state where status = 'working'"
        with psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as postgres:
            await until(lambda: value(postgres, held) == claims + front.left())


async def test_defect_of_one_claimant_harms_no_other(
    front: ScriptedFront, pool_client: PoolClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Those who share a pop have nothing to do with one another."""
    front.fill(10)

    def broken(tasks: list[Task]) -> None:
        raise ValueError(f"cannot take {len(tasks)} tasks")

    async with pool_client:
        await pool_client.wait_until_filled()
        pool_client.pool.submit(1, next(leases), 1, ALL, broken)
        assert len(await pool_client.claim(2)) == 1
        assert pool_client.pool.breaker.closed
    assert "cannot take 1 tasks" in caplog.text


async def test_closing_leaves_nobody_waiting(front: ScriptedFront, pool_client: PoolClient) -> None:
    """Anyone who claims while a gateway stops gets an error, and goes to PostgreSQL."""
    front.fill(10)
    async with pool_client:
        await pool_client.wait_until_filled()
        under_way = pool_client.ask(1)
        await asyncio.sleep(0)
        late = pool_client.ask(2)
        await pool_client.pool.close()
        assert under_way.done()
        assert late.done()
        after = pool_client.ask(3)
        assert await after == []


async def test_queue_without_a_front_makes_no_claim_wait(
    database: Database, campaign: Campaign, pool_client: PoolClient
) -> None:
    """Before the first epoch, and for servings of which nothing is known, claims go elsewhere."""
    assert campaign.campaign_id
    async with pool_client:
        for serving in (ALL, Scope("/no/such"), Scope("/c", ("gpu",), 60.0)):
            assert not pool_client.pool.has_entries(serving)
            assert await pool_client.ask(scope=serving) == []
        assert database.value("front_state") is not None


async def test_tasks_of_a_campaign_never_served_before_are_handed_out_while_postgresql_is_away(
    front: ScriptedFront,
    database: Database,
    cut_off: Callable[[], AbstractContextManager[None]],
) -> None:
    """What they share is known to a gateway before it pops the first of them."""
    front.fill(10)
    batcher, statements = Batcher(database), StatementPool(database, 1)
    pool = Pool(database, FrontAddress.parsed(front.server.url), batcher.campaign_cache)
    fronted = Fronted(batcher, pool, statements)
    await fronted.start()
    try:
        await until(lambda: pool.has_entries(ALL))
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        with cut_off():
            fronted.submit(
                ExchangeRequest(1, 1, next(leases), ALL, (), ()), partial(resolve, answer)
            )
            (task,) = (await answer).tasks
        assert task.campaign == front.campaign
    finally:
        await fronted.close()
        await batcher.close()
        await statements.close()
