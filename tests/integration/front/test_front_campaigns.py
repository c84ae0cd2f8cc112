"""Whole campaigns with a front: real agents, a real gateway, and what can go wrong between them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from taskq import CampaignSpec, Client, Handler, RetryPolicy, Seed
from taskq.db.connections import Database
from taskq.embedded import Server
from taskq.front.address import FrontAddress
from taskq.front.entries import Keys
from taskq.front.refiller import refilling
from taskq.upkeep.keeper import keeping
from tests.fixtures.gateways import (  # noqa: F401  # fixtures, for the tests here
    GatewayProcess,
    Realm,
    StartGateway,
    opened,
    start_gateway,
)
from tests.fixtures.own_servers import own_server  # noqa: F401  # a fixture, for the tests here
from tests.fixtures.redis_servers import RedisServer
from tests.helpers.meanwhile import meanwhile
from tests.helpers.paths import PAYLOADS
from tests.helpers.postgres import assert_counts_are_true
from tests.helpers.waiting import wait_until
from tests.helpers.worker_node import AgentResult
from tests.integration.gateway.site import Site

pytestmark = pytest.mark.thorough

TASKS = 150
TAKES_S = 0.2
NODES = 2
SLOTS = 4
PATIENCE_S = 100.0
#: So short that what a killed server had comes back soon; longer than tasks wait for slots that get
#: new children for retries.
POOL_S = 8.0
KILL_S = 2.0
LOOK_S = 0.05

#: Every 11th task fails for good, of the others every 7th the first time.
UNEVEN = f"""
import time
from pathlib import Path


class Unlucky(Exception):
    pass


def run(payload, shared):
    time.sleep({TAKES_S})
    n = payload["n"]
    if n % 11 == 0:
        raise Unlucky
    if n % 7 == 0:
        try:
            Path(shared["marks"], str(n)).touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            raise Unlucky
    return {{"twice": 2 * n}}
"""

_TABLE = """
    select s.key, s.priority, t.status::text, a.outcome::text, a.error_class, a.result
      from taskq.state t
      join taskq.spec s using (campaign_id, task_id)
      left join taskq.attempt a using (campaign_id, task_id, attempt)
     order by t.task_id
"""
_DONE = "select task_id from taskq.attempt where outcome = 'done'"

#: What a gateway may say when a front, or a database, goes and comes.
TROUBLE = ("front", "database", "trying again", "works")


def final_table() -> list[tuple[Any, ...]]:
    """Return what must come of the uneven campaign."""
    return [
        (str(n), n % 3, "failed", "failed", "uneven.Unlucky", None)
        if n % 11 == 0
        else (str(n), n % 3, "done", "done", None, {"twice": 2 * n})
        for n in range(TASKS)
    ]


@contextmanager
def killed_again_and_again(server: RedisServer, in_use: Callable[[], bool]) -> Iterator[list[int]]:
    """Kill a server that is in use, start it anew, and so every two seconds; give the kills."""
    kills: list[int] = []

    def kill(over: threading.Event) -> None:
        while not (in_use() or over.wait(LOOK_S)):
            pass
        while not over.wait(KILL_S):
            kills.append(server.pid)
            server.kill()
            server.start()

    with meanwhile(kill):
        yield kills


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Give a site without nodes."""
    return Site(tmp_path)


def claims_served(gateway: GatewayProcess, manager: str) -> float:
    """Return how many claims a gateway has served from its front."""
    text = gateway.ask("GET", "/metrics", token=manager).body.decode()
    found = re.search(r"^taskq_front_hits_total (\S+)$", text, re.MULTILINE)
    assert found, text
    return float(found[1])


@contextmanager
def at_work(site: Site, place: Realm, payloads: Path) -> Iterator[list[AgentResult]]:
    """Have agents at work until nothing is left; give how they ended, after the block."""
    ran: list[AgentResult] = []
    with ExitStack() as stack:
        agents = [
            stack.enter_context(
                site.node(place.site).at_work(
                    place.gateway.url,
                    path=payloads,
                    spool="spool",
                    slots=SLOTS,
                    until_empty=True,
                )
            )
            for _ in range(NODES)
        ]
        yield ran
        ran += [AgentResult(agent) for agent in agents]
    assert [agent.code for agent in ran] == [0] * NODES, [agent.err for agent in ran]
    assert [agent.summary["undelivered"] for agent in ran] == [0] * NODES


@pytest.fixture
def front(database: Database, redis_server: RedisServer) -> Iterator[RedisServer]:
    """Give the server of a front that is refilled."""
    with refilling(database, FrontAddress.parsed(redis_server.url), POOL_S):
        wait_until(lambda: begun(database), timeout_s=PATIENCE_S)
        yield redis_server


def begun(database: Database) -> bool:
    """Return whether there is a front."""
    return bool((database.row("front_state") or {})["epoch"])


def work_through(site: Site, place: Realm, folder: Path) -> None:
    """Have a campaign done of which some tasks fail; all end as they must, and none twice."""
    payloads, marks = folder / "payloads", folder / "marks"
    for path in (payloads, marks):
        path.mkdir()
    (payloads / "uneven.py").write_text(UNEVEN)
    database = place.queue.database
    campaign = place.queue.create_campaign(
        CampaignSpec(
            f"{place.path}/uneven",
            handler=Handler("python", target="uneven:run"),
            params={"marks": str(marks)},
            retry=RetryPolicy(max_attempts=3, backoff_s=0.1, backoff_max_s=0.2),
        )
    )
    campaign.seed(Seed({"n": n}, str(n), n % 3) for n in range(TASKS))
    with keeping(database), at_work(site, place, payloads) as ran:
        pass
    with psycopg.connect(database.dsn) as behind:
        assert behind.execute(_TABLE).fetchall() == final_table()
        done = [task for (task,) in behind.execute(_DONE)]
    assert len(done) == len(set(done)) == TASKS - len(range(0, TASKS, 11))
    assert sum(agent.summary["done"] for agent in ran) == len(done)
    with psycopg.connect(database.dsn, row_factory=dict_row) as counted:
        assert_counts_are_true(counted)


def test_campaign_ends_in_this_table_without_redis(
    queue: Client,
    site: Site,
    tmp_path: Path,
    start_gateway: StartGateway,  # noqa: F811  # the fixture
) -> None:
    """With priorities, failures for good, and failures that a retry mends."""
    work_through(site, Realm(queue, start_gateway()), tmp_path)


def test_campaign_ends_in_the_same_table_with_redis(
    queue: Client,
    front: RedisServer,
    site: Site,
    tmp_path: Path,
    start_gateway: StartGateway,  # noqa: F811  # the fixture
) -> None:
    """Most tasks were leased ahead, and nobody can tell."""
    place = Realm(queue, start_gateway("--redis", front.url, expected=["the front works"]))
    work_through(site, place, tmp_path)
    assert claims_served(place.gateway, place.manager) > TASKS / 10


def test_campaign_ends_in_the_same_table_with_a_redis_that_is_killed_every_two_seconds(
    queue: Client,
    front: RedisServer,
    site: Site,
    tmp_path: Path,
    start_gateway: StartGateway,  # noqa: F811  # the fixture
) -> None:
    """Nothing is lost, nothing counts twice, whatever was in its lists."""
    place = Realm(queue, start_gateway("--redis", front.url, expected=TROUBLE))
    # On a busy machine the front may not come back within two seconds: it has served before.
    served = partial(claims_served, place.gateway, place.manager)
    with killed_again_and_again(front, lambda: served() > 0) as kills:
        work_through(site, place, tmp_path)
    assert len(kills) >= 2


def test_claims_go_on_while_postgresql_restarts_until_the_pool_is_empty(
    own_server: Server,  # noqa: F811  # the fixture
    redis_server: RedisServer,
    site: Site,
    start_gateway: StartGateway,  # noqa: F811  # the fixture
) -> None:
    """Reports wait in the agents' spools meanwhile; each task is executed once and counts once."""
    dsn = own_server.up().dsn
    with ExitStack() as stack:
        queue = stack.enter_context(opened(dsn))
        database = queue.database
        stack.enter_context(keeping(database))
        stack.enter_context(refilling(database, FrontAddress.parsed(redis_server.url)))
        wait_until(lambda: begun(database), timeout_s=PATIENCE_S)
        keys = Keys((database.row("front_state") or {})["name"])
        place = Realm(queue, start_gateway("--redis", redis_server.url, on=dsn, expected=TROUBLE))
        campaign = site.unhurried(place, TASKS, TAKES_S)
        pooled = keys.tasks(campaign.campaign_id)
        served = partial(claims_served, place.gateway, place.manager)
        with at_work(site, place, PAYLOADS) as ran:
            # A gateway goes on with campaigns that it has served from the front before.
            wait_until(
                lambda: (
                    served() > 0
                    and len(site.executions()) >= NODES * SLOTS
                    and redis_server.admin.llen(pooled) >= NODES * SLOTS
                ),
                timeout_s=PATIENCE_S,
            )
            own_server.down(immediate=True)
            there, before = redis_server.admin.llen(pooled), len(site.executions())
            wait_until(lambda: redis_server.admin.llen(pooled) == 0, timeout_s=PATIENCE_S)
            # What was popped for claims whose answers did not arrive waits for its deadline.
            least = before + there - NODES * SLOTS
            wait_until(lambda: len(site.executions()) >= least, timeout_s=PATIENCE_S)
            own_server.up()
        results = [result.payload["n"] for result in campaign.results()]
        assert sorted(results) == list(range(TASKS))
        assert site.executions() == dict.fromkeys(range(TASKS), 1)
        assert sum(agent.summary["done"] for agent in ran) == TASKS
        status = campaign.status()
        assert (status.done, status.unfinished, status.failures, status.losses) == (TASKS, 0, 0, 0)
