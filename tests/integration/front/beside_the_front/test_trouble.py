"""Agents next to the database while PostgreSQL or Redis is away, and the end of their front."""

from __future__ import annotations

import threading
from contextlib import closing
from functools import partial

import pytest

from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq.dispatch.direct import DirectTransport
from taskq.embedded import Server
from taskq.front.address import FrontAddress
from taskq.front.blocking import BlockingPool, refilling
from taskq.front.levels import LEAST
from taskq.upkeep.keeper import keeping
from tests.fixtures.front import Popper
from tests.fixtures.own_servers import own_server  # noqa: F401  # a fixture, for the tests here
from tests.fixtures.redis_servers import RedisServer
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres, assert_counts_are_true, value
from tests.helpers.waiting import wait_until
from tests.integration.front.beside_the_front.support import END_S, POOL_S, Employ, Visitor, stock


def front_threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name == "taskq-front"]


@pytest.mark.thorough
def test_agent_goes_on_while_postgresql_restarts(
    own_server: Server,  # noqa: F811  # the fixture
    redis_server: RedisServer,
    front: FrontAddress,
    employ: Employ,
) -> None:
    """With what is in the list; its reports wait, and all of them count in the end."""
    with closing(Database(own_server.up().dsn).open()) as database:
        campaign = servable(Client(database), tasks=LEAST)
        popper = Popper(database, redis_server)
        with refilling(database, front, POOL_S):
            stock(database, popper, campaign)
            agent = employ(database)
            agent.pass_on(5)
            own_server.down(immediate=True)
            agent.pass_on(20)
            own_server.up()
            summary = agent.finish()
        assert (summary.done, summary.superseded, summary.undelivered) == (LEAST, 0, 0)
        assert campaign.status().done == LEAST
        made = [len(list(campaign.attempts(task.key))) for task in campaign.tasks()]
        assert made == [1] * LEAST


@pytest.mark.thorough
def test_agent_goes_on_while_redis_is_killed(
    database: Database,
    refilled: Campaign,
    redis_server: RedisServer,
    employ: Employ,
    postgres: Postgres,
) -> None:
    """With what waits in PostgreSQL, and at last with what was lost in Redis."""
    with keeping(database):
        agent = employ(database)
        agent.pass_on(5)
        redis_server.kill()
        refilled.seed({"more": n} for n in range(20))
        agent.pass_on(20)
        postgres.execute("update taskq.front set pool_s = 1")
        agent.turnstile.let(10_000)
        wait_until(lambda: refilled.status().done == LEAST + 20, timeout_s=END_S)
        assert agent.finish().undelivered == 0
    done = value(postgres, "select count(*) from taskq.attempt where outcome = 'done'")
    assert done == LEAST + 20
    assert_counts_are_true(postgres)


def test_front_that_cannot_be_reached_is_none(
    database: Database, campaign: Campaign, redis_server: RedisServer, employ: Employ
) -> None:
    """Nobody waits for it."""
    redis_server.kill()
    assert employ(database).finish().done == campaign.status().done == LEAST


@pytest.mark.usefixtures("leased")
def test_close_ends_the_thread_and_a_later_claim_begins_anew(
    database: Database, front: FrontAddress
) -> None:
    """There is none before the first claim either."""
    transport = DirectTransport(database, front=partial(BlockingPool, address=front))
    for _ in range(2):
        assert front_threads() == []
        visitor = Visitor(transport)
        visitor.claim(1)
        assert len(front_threads()) == 1
        transport.close(visitor.session)
    assert front_threads() == []
