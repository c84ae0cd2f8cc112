"""What was taken out of the lists waits again soon, whatever fails before its leases are back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import psycopg
import pytest

from taskq import Campaign, Client, Seed
from taskq.db.connections import Database, Row
from taskq.front.address import FrontAddress
from taskq.front.demand import LEAST
from taskq.front.entries import open_entry
from taskq.front.fill import Filler
from taskq.front.lease_returns import LeaseReturns
from taskq.front.levels import Levels
from taskq.front.lists import PUSH_BYTES, Lists
from taskq.front.redis import FrontDown, RedisLink
from tests.fixtures.front import Popper, Refill, in_pool
from tests.fixtures.redis_servers import RedisServer
from tests.helpers.campaigns import servable
from tests.helpers.front_harness import ScriptedFront
from tests.helpers.postgres import Postgres, assert_counts_are_true
from tests.helpers.waiting import wait_until

TASKS = 400
#: Far longer than a test takes: nothing comes back by the pool's deadline.
POOL_S = 3_600.0

Fill = Callable[[Callable[[Filler], Awaitable[None]], Callable[[str], object]], None]


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give a campaign that may be leased from, with tasks."""
    return servable(queue, tasks=TASKS)


def broken_off(postgres: Postgres, statement: str) -> set[int]:
    """Cut the connections on which such a statement waits for a lock; return who they were."""
    cut = postgres.execute(
        "select pid, pg_terminate_backend(pid) from pg_stat_activity"
        " where wait_event_type = 'Lock' and query like %s",
        [f"select taskq.{statement}(%"],
    )
    return {row["pid"] for row in cut}


@pytest.mark.thorough
def test_leases_go_back_though_the_statement_that_gives_them_back_breaks_off(
    campaign: Campaign, popper: Popper, refill: Refill, dsn: str, postgres: Postgres
) -> None:
    """Their entries are gone from Redis by then, and nobody else knows of them."""
    refill(POOL_S)
    popper.stock(campaign.campaign_id)
    with psycopg.connect(dsn) as other:
        other.execute("lock table taskq.delta in share mode")  # anyone who moves tasks has to wait
        campaign.pause()
        cut: set[int] = set()

        def broken_off_for_good() -> bool:
            # The first time, it is sent again at once on a new connection.
            cut.update(broken_off(postgres, "return_ahead"))
            return len(cut) > 1

        wait_until(broken_off_for_good)
    wait_until(lambda: in_pool(postgres) == 0)
    assert campaign.status().waiting == TASKS
    assert_counts_are_true(postgres)


@pytest.fixture
def fill(database: Database, redis_server: RedisServer) -> Fill:
    """Give a function that does something with a filling of the front as it is.

    After each statement it calls the second argument, with the statement's name.
    """

    def run(do: Callable[[Filler], Awaitable[None]], after: Callable[[str], object]) -> None:
        async def whole() -> None:
            line = database.dedicated_async_connection()
            link = RedisLink(FrontAddress.parsed(redis_server.url))

            async def rows(name: str, /, **values: object) -> list[Row]:
                answer = await line.rows(name, **values)
                after(name)
                return answer

            lists = Lists(link, Popper(database, redis_server).state)
            try:
                await do(Filler(rows, lists, Levels(POOL_S), LeaseReturns(rows)))
            finally:
                await link.close()
                await line.close()

        asyncio.run(whole())

    return run


def test_leases_go_back_though_the_next_list_cannot_be_emptied(
    front: ScriptedFront, queue: Client, fill: Fill, postgres: Postgres
) -> None:
    """Each list counts by itself."""
    front.fill(300)  # more than one call takes out
    other = queue.create_campaign("/other").campaign_id
    front.server.admin.set(front.keys.tasks(other), "no list")

    async def withdraw(filling: Filler) -> None:
        for campaign in (front.campaign, other):
            filling.levels.inherit(campaign, 300, 0.0)
        with pytest.raises(FrontDown):
            await filling.withdraw([front.campaign, other])

    fill(withdraw, str)
    assert (front.left(), in_pool(postgres)) == (0, 0)
    assert_counts_are_true(postgres)


def test_of_what_is_being_pushed_when_redis_hangs_only_the_first_part_may_be_there(
    front: ScriptedFront, campaign: Campaign, fill: Fill, postgres: Postgres
) -> None:
    """All other leases go back at once; of those nobody knows whether they can be popped."""
    text = "x" * 60_000
    campaign.seed(Seed({"text": text, "n": n}, priority=1) for n in range(LEAST))

    async def work(filling: Filler) -> None:
        filling.levels.inherit(front.campaign, 0, asyncio.get_running_loop().time())
        with pytest.raises(FrontDown):
            await filling.work(60.0, asyncio.Event())

    def hang(statement: str) -> None:
        if statement == "lease_ahead":
            front.server.freeze()

    fill(work, hang)
    assert 1 <= in_pool(postgres) <= PUSH_BYTES // len(text)
    assert_counts_are_true(postgres)


@pytest.mark.parametrize("renamed", [False, True], ids=["restarted", "marks lost"])
def test_new_epoch_leaves_nothing_to_the_deadline_that_redis_still_has(
    campaign: Campaign, popper: Popper, refill: Refill, postgres: Postgres, *, renamed: bool
) -> None:
    """Another process at the address, which has the lists: a replica, or one with a snapshot."""
    refill(POOL_S)
    popper.stock(campaign.campaign_id)
    admin = popper.server.admin
    if renamed:
        admin.rename(popper.keys.state, "elsewhere")
    else:
        admin.save()
        popper.server.kill()
        popper.server.start()
    wait_until(lambda: popper.state.epoch > 1)
    wait_until(lambda: popper.state.epoch == popper.epoch_there)

    def leads_nowhere_else() -> bool:
        state, list_ = popper.state, popper.keys.tasks(campaign.campaign_id)
        entries = admin.lrange(list_, 0, -1)
        genuine = all(open_entry(raw, state) for raw in entries)
        return genuine and in_pool(postgres) == len(entries)

    wait_until(leads_nowhere_else)
    assert_counts_are_true(postgres)
