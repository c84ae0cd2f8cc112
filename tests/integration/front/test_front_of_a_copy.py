"""Two databases, one a copy of the other, with the same Redis."""

from __future__ import annotations

from contextlib import closing

import psycopg

from taskq import Client
from taskq.db.connections import Database
from taskq.front.address import FrontAddress
from taskq.front.refiller import refilling
from taskq_agent.protocol import DONE
from tests.fixtures.databases import fresh_database
from tests.fixtures.front import Popper
from tests.fixtures.redis_servers import RedisServer
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres
from tests.helpers.scripted_agent import ScriptedAgent, report_of

TASKS = 200
READ = "select name, epoch, secret, pool_s, begun_at from taskq.front"
COPY = (
    "update taskq.front set (name, epoch, secret, pool_s, begun_at)"
    " = (%(name)s, %(epoch)s, %(secret)s, %(pool_s)s, %(begun_at)s)"
)


def pops_only_its_own(database: Database, popper: Popper, campaign: int) -> None:
    """Pop tasks and report them, each with the verdict that it counts."""
    with closing(ScriptedAgent(database)) as agent:
        popper.stock(campaign)
        tasks = popper.pop(campaign, 20)
        assert tasks
        reports = [report_of(task, DONE, result={}, session=agent.session) for task in tasks]
        assert agent.exchange(reports)["acks"] == ["accepted"] * len(tasks)


def test_copy_of_a_database_has_lists_of_its_own_in_the_same_redis(
    queue: Client,
    database: Database,
    postgres: Postgres,
    redis_server: RedisServer,
    server_dsn: str,
    template: str,
) -> None:
    """Else each would hand out, and empty, what the other has leased; the secret is the same."""
    first = servable(queue, tasks=TASKS)
    address = FrontAddress.parsed(redis_server.url)
    with fresh_database(server_dsn, template) as dsn, closing(Database(dsn).open()) as copy:
        second = servable(Client(copy), tasks=TASKS)
        poppers = Popper(database, redis_server), Popper(copy, redis_server)
        with refilling(database, address):
            poppers[0].stock(first.campaign_id)
        (front,) = postgres.execute(READ).fetchall()
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute(COPY, front)
        assert [popper.state.secret for popper in poppers] == [front["secret"]] * 2
        assert poppers[0].state.name != poppers[1].state.name
        with refilling(database, address), refilling(copy, address):
            for _ in range(3):
                pops_only_its_own(copy, poppers[1], second.campaign_id)
                pops_only_its_own(database, poppers[0], first.campaign_id)
        assert poppers[0].state.epoch == front["epoch"], "nobody has emptied its lists"
