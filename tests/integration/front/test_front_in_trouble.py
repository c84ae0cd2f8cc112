"""The refiller in trouble: whatever happens to Redis or PostgreSQL costs time only."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing

import pytest

from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq.embedded import Server
from taskq.front.address import FrontAddress
from taskq.front.demand import LEAST
from taskq.front.refiller import refilling
from taskq_agent.protocol import DONE, Task
from tests.fixtures.front import Popper, Refill, in_pool
from tests.fixtures.own_servers import own_server  # noqa: F401  # a fixture, for the tests here
from tests.fixtures.queues import Hire
from tests.fixtures.redis_servers import RedisServer
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres, assert_counts_are_true, value
from tests.helpers.scripted_agent import Claimed, report_of
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.thorough

TASKS = 400


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give a campaign that may be leased from, with tasks."""
    return servable(queue, tasks=TASKS)


@pytest.fixture
def finish(
    campaign: Campaign, popper: Popper, hire: Hire, postgres: Postgres
) -> Callable[[], None]:
    """Give a function that works through the campaign by popping.

    What gets lost is back in a second, and is not leased ahead again but claimed in PostgreSQL.
    """
    only_lost = "select bool_and(session_id = 0) from taskq.state where status = 'waiting'"

    def finish_all() -> None:
        agent = hire(campaign.path)
        postgres.execute("update taskq.front set pool_s = 1")

        def work() -> bool:
            tasks: list[Task] | list[Claimed] = popper.pop(campaign.campaign_id, 50)
            if not tasks:
                postgres.execute("select taskq.expire_ahead()")
                tasks = agent.claim(50) if value(postgres, only_lost) else []
            reports = [report_of(task, DONE, result={}, session=agent.session) for task in tasks]
            assert len(agent.exchange(reports)["acks"] or ()) == len(tasks)
            return campaign.status().done == TASKS

        wait_until(work, timeout_s=30, on_timeout=lambda: str(campaign.status()))

    return finish_all


def restart(popper: Popper) -> None:
    """Let the server lose what it had."""
    popper.server.kill()
    popper.server.start()


def restore(popper: Popper, campaign: int) -> None:
    """Bring back an old snapshot, with entries that have been popped since."""
    popper.server.admin.save()
    popper.pop(campaign, 10)
    restart(popper)


def triple(popper: Popper, campaign: int) -> None:
    """Let each entry of a list be there three times."""
    key = popper.keys.tasks(campaign)
    popper.server.admin.rpush(key, *popper.server.admin.lrange(key, 0, -1) * 2)


SPOILED: dict[str, Callable[[Popper, int], object]] = {
    "flushed": lambda it, _: it.server.admin.flushall(),
    "restarted": lambda it, _: restart(it),
    "restored": restore,
    "garbage": lambda it, campaign: it.server.admin.rpush(it.keys.tasks(campaign), *["x"] * 10),
    "tripled": triple,
    "a list is text": lambda it, campaign: it.server.admin.set(it.keys.tasks(campaign), "x"),
    "the state is text": lambda it, _: it.server.admin.set(it.keys.state, "x"),
    "the wake is text": lambda it, _: it.server.admin.set(it.keys.wake, "x"),
    "what is wanted is text": lambda it, _: it.server.admin.set(it.keys.wanted, "x"),
    "the epoch is set back": lambda it, _: it.server.admin.hset(it.keys.state, "epoch", 0),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_front_goes_on_by_itself_in_a_new_epoch_and_nothing_is_lost(
    spoil: Callable[[Popper, int], object],
    stocked: int,
    popper: Popper,
    finish: Callable[[], None],
    postgres: Postgres,
) -> None:
    """Whatever happens to Redis; what was in its lists comes back with the pool's deadline."""
    spoil(popper, stocked)
    wait_until(lambda: popper.state.epoch > 1)
    wait_until(lambda: popper.state.epoch == popper.epoch_there)
    finish()
    done = value(postgres, "select count(*) from taskq.attempt where outcome = 'done'")
    assert (done, in_pool(postgres)) == (TASKS, 0)
    assert_counts_are_true(postgres)


def test_while_redis_is_down_postgresql_serves_and_then_the_front_again(
    stocked: int, campaign: Campaign, popper: Popper, hire: Hire, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so once, and once that it is over."""
    with caplog.at_level(logging.WARNING, "taskq.front"):
        popper.server.kill()
        wait_until(lambda: "refilling cannot be done now" in caplog.text)
        assert len(hire(campaign.path).claim(10)) == 10
        popper.server.start()
        popper.stock(stocked)
        wait_until(lambda: "refilling works again" in caplog.text)
    assert caplog.text.count("refilling cannot be done now") == 1


@pytest.mark.usefixtures("stocked")
def test_refiller_that_cannot_reach_redis_leaves_it_to_another(
    popper: Popper, postgres: Postgres
) -> None:
    """It claims to have nothing in stock, and does not renew its term."""
    wait_until(lambda: value(postgres, "select count(*) from taskq.front_list") == 1)
    popper.server.kill()
    wait_until(lambda: value(postgres, "select count(*) from taskq.front_list") == 0)
    over = "select until < clock_timestamp() from taskq.front_refiller"
    wait_until(lambda: value(postgres, over))


def test_tasks_that_a_full_redis_refuses_wait_again_at_once(
    campaign: Campaign,
    popper: Popper,
    refill: Refill,
    postgres: Postgres,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Not after the deadline only."""
    admin = popper.server.admin
    with caplog.at_level(logging.WARNING, "taskq.front"):
        refill(3_600.0)
        wait_until(lambda: popper.epoch_there > 0)
        with admin.pipeline(transaction=True) as both:
            both.sadd(popper.keys.wanted, campaign.campaign_id)
            both.config_set("maxmemory", 1)
            both.execute()
        wait_until(lambda: "refilling cannot be done now" in caplog.text)
    wait_until(lambda: in_pool(postgres) == 0)
    assert campaign.status().waiting == TASKS
    assert_counts_are_true(postgres)


def test_lists_outlive_a_restart_of_postgresql(
    own_server: Server,  # noqa: F811  # the fixture
    redis_server: RedisServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What is in them can be handed out meanwhile; then they are filled, in the same epoch."""
    with closing(Database(own_server.up().dsn).open()) as database:
        campaign = servable(Client(database), tasks=TASKS)
        popper = Popper(database, redis_server)
        with (
            caplog.at_level(logging.WARNING, "taskq.front"),
            refilling(database, FrontAddress.parsed(redis_server.url)),
        ):
            popper.stock(campaign.campaign_id)
            there = popper.keys.tasks(campaign.campaign_id)
            own_server.down(immediate=True)
            wait_until(lambda: "refilling cannot be done now" in caplog.text)
            assert redis_server.admin.llen(there) == LEAST
            redis_server.admin.lpop(there, LEAST)
            own_server.up()
            wait_until(lambda: redis_server.admin.llen(there) >= LEAST)
        assert popper.state.epoch == popper.epoch_there == 1
