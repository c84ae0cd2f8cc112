"""All engines at once, each killed in turn under one campaign that is judged by its export.

Patroni with three members, HAProxy that finds their leader, PgBouncer before that, a Valkey Cluster
in front, blobs in S3, two gateways. `--log-cli-level INFO` says how long each strike took.
"""

from __future__ import annotations

import json
import logging
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psycopg
import pytest

from taskq import Campaign, CampaignSpec, Handler, Seed
from taskq.front.entries import Keys
from taskq.model.errors import Unavailable
from tests.engines.load import LATER_S, SAID, is_master
from tests.engines.test_patroni import Patroni, patroni  # noqa: F401  # a fixture
from tests.engines.test_patroni_haproxy import Proxy
from tests.engines.test_pgbouncer import Pooler
from tests.engines.test_redis_cluster import Cluster, start_cluster
from tests.fixtures.gateways import GatewayProcess, Realm, StartGateway, opened
from tests.fixtures.redis_servers import StartRedis
from tests.fixtures.s3_servers import S3Server
from tests.helpers.command_line import CommandLine
from tests.helpers.paths import PAYLOADS
from tests.helpers.waiting import free_port, wait_until
from tests.helpers.worker_node import AgentResult
from tests.integration.gateway.site import Site

TASKS = 60_000
#: One result in so many goes to S3.
LARGE_EACH = 250
#: What the input says, which is in S3.
FACTOR = 7
AGENTS, SLOTS = 2, 4
#: How often each engine is killed.
ROUNDS = 1
#: Tasks that must be done after a strike, and while the store is away.
SOME = 500
ENDS_S = 900.0

log = logging.getLogger(__name__)


class Grid:
    """The engines, and two gateways that use them all. folder: for a file."""

    def __init__(
        self,
        members: Patroni,
        cluster: Cluster,
        store: S3Server,
        start_gateway: StartGateway,
        folder: Path,
    ) -> None:
        self._patroni, self._cluster, self._store = members, cluster, store
        self._start_gateway = start_gateway
        self._balancer = Proxy(members, folder)
        self._pooler = Pooler(self._balancer.leader, members.account, "postgres")
        self.dsn = self._pooler.dsn
        self.gateways = [self._gateway(free_port()) for _ in range(2)]

    def close(self) -> None:
        """End what it has started."""
        self._pooler.close()
        self._balancer.close()

    def strikes(self) -> list[Callable[[Campaign], None]]:
        """Return what is done to each of them, under load."""
        database = [self.kill_leader, self.kill_balancer, self.kill_pooler]
        gateways = [self.kill_gateway] * 2
        return [*database, self.kill_master, self.kill_store, *gateways] * ROUNDS

    def kill_leader(self, _: Campaign) -> None:
        """Kill PostgreSQL's leader with its Patroni, until there is another."""
        self._patroni_has(self._patroni.is_whole)
        dead = self._patroni.leader()
        assert dead is not None
        dead.kill()
        self._patroni_has(lambda: self._patroni.leader() not in {None, dead})
        dead.start()

    def kill_balancer(self, _: Campaign) -> None:
        """Kill HAProxy."""
        self._balancer.close()
        self._balancer.start()

    def kill_pooler(self, _: Campaign) -> None:
        """Kill PgBouncer."""
        self._pooler.end(signal.SIGKILL)
        self._pooler.start()

    def kill_master(self, _: Campaign) -> None:
        """Kill the master that has the lists, until its replica has taken over."""
        with psycopg.connect(self._patroni.dsn, target_session_attrs="read-write") as direct:
            row = direct.execute("select taskq.front_name() as name").fetchone()
        assert row is not None
        dead = self._cluster.master_of(Keys(row[0]).state)
        others = [
            server for server in self._cluster.nodes if server is not dead and not is_master(server)
        ]
        dead.kill()
        wait_until(lambda: any(is_master(server) for server in others), timeout_s=LATER_S)
        dead.start()

    def kill_store(self, campaign: Campaign) -> None:
        """Kill S3, until the campaign has gone on for a while without it."""
        self._store.kill()
        goes_on(campaign)
        self._store.start()

    def kill_gateway(self, _: Campaign) -> None:
        """Kill a gateway; the other is the next."""
        dead, other = self.gateways
        dead.kill()
        self.gateways = [other, self._gateway(dead.port)]

    def _gateway(self, port: int) -> GatewayProcess:
        words = ("--listen", f"127.0.0.1:{port}", "--redis", self._cluster.url)
        return self._start_gateway(*words, on=self.dsn, keeper=True, expected=SAID)

    def _patroni_has(self, condition: Callable[[], bool]) -> None:
        wait_until(condition, timeout_s=LATER_S, on_timeout=self._patroni.said)


@pytest.fixture
def grid(
    patroni: Patroni,  # noqa: F811  # the fixture
    start_redis: StartRedis,
    own_s3: S3Server,
    s3_address: Callable[[S3Server], str],
    start_gateway: StartGateway,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Grid]:
    """Give all of it; the store is that of this process too."""
    monkeypatch.setenv("TASKQ_BLOBS", s3_address(own_s3))
    cluster = start_cluster("valkey", start_redis)
    grid = Grid(patroni, cluster, own_s3, start_gateway, tmp_path)
    try:
        yield grid
    finally:
        grid.close()


def done_of(campaign: Campaign) -> int:
    """Return how many tasks are done; 0 while nobody can say it."""
    with suppress(Unavailable):
        return campaign.status().done
    return 0


def goes_on(campaign: Campaign) -> None:
    """See that some tasks more are done."""
    seen = [0]

    def look() -> bool:
        seen.append(done_of(campaign))
        first = next(filter(None, seen), TASKS)
        return seen[-1] >= min(first + SOME, TASKS)

    wait_until(look, timeout_s=LATER_S, on_timeout=lambda: str(seen[-1]))


def judged(export: Path) -> dict[str, list[int]]:
    """Return the tasks that are lost, there twice, or wrong, by what was exported alone."""
    found: Counter[int] = Counter()
    wrong = []
    with export.open(encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            number, result = int(record["key"]), record["result"]
            found[number] += 1
            right = {"product": number * FACTOR}
            if number % LARGE_EACH == 0:
                right["filler"] = "x" * 300_000
            if result != right:
                wrong.append(number)
    lost = [number for number in range(TASKS) if number not in found]
    twice = [number for number, times in found.items() if times > 1]
    return {"lost": lost, "twice": twice, "wrong": wrong}


def test_no_task_is_lost_or_doubled_whichever_engine_is_killed(grid: Grid, tmp_path: Path) -> None:
    """Each engine in turn, while a hundred thousand tasks go through all of them."""
    site, began = Site(tmp_path), time.monotonic()
    with opened(grid.dsn) as queue, ExitStack() as stack:
        place = Realm(queue, grid.gateways[0])
        handler = Handler("python", target="scaled:run")
        campaign = queue.create_campaign(
            CampaignSpec(f"{place.path}/c", handler=handler, params={"large_each": LARGE_EACH})
        )
        (tmp_path / "factor").write_text(str(FACTOR))
        campaign.add_input(tmp_path / "factor")
        campaign.seed(Seed({"n": n}, str(n)) for n in range(TASKS))
        agents = [
            stack.enter_context(
                site.node(place.site).at_work(
                    *(gateway.url for gateway in grid.gateways),
                    path=PAYLOADS,
                    slots=SLOTS,
                    cache=tmp_path / "cache",
                )
            )
            for _ in range(AGENTS)
        ]
        strikes = grid.strikes()
        for number, strike in enumerate(strikes, 1):
            due = TASKS * number // (len(strikes) + 2)
            wait_until(lambda due=due: done_of(campaign) >= due, timeout_s=ENDS_S)
            assert done_of(campaign) < TASKS, "strikes came too late"
            struck = time.monotonic()
            strike(campaign)
            goes_on(campaign)
            log.info("%s: %d done after %.1f s", strike.__name__, SOME, time.monotonic() - struck)
        wait_until(
            lambda: done_of(campaign) == TASKS,
            timeout_s=ENDS_S,
            on_timeout=lambda: str([gateway.errors() for gateway in grid.gateways]),
        )
        log.info("%d tasks done in %.0f s", TASKS, time.monotonic() - began)
        for process in agents:
            process.terminate()
        ended = [AgentResult(process) for process in agents]
        assert [result.code for result in ended] == [0] * AGENTS, [result.err for result in ended]
    taskq = CommandLine(grid.dsn)
    taskq.out("export", campaign.path, "--to", tmp_path / "export.jsonl")
    assert judged(tmp_path / "export.jsonl") == {"lost": [], "twice": [], "wrong": []}
    assert taskq.json("audit", campaign.path) == []
