"""The front on real servers as they are found: each kind, with few rights, TLS, in a cluster."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import shlex
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
import redis

from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq.dispatch.campaign_cache import CampaignCache
from taskq.dispatch.fair_share import Scope
from taskq.front.address import FrontAddress
from taskq.front.entries import Keys
from taskq.front.pool import Pool
from taskq.front.redis import FrontDown, RedisLink
from taskq.front.refiller import Refiller
from taskq_agent.protocol import Task
from tests.fixtures.redis_servers import RedisServer, StartRedis
from tests.helpers.campaigns import servable
from tests.helpers.certificates import Certificates
from tests.helpers.command_line import CommandLine
from tests.helpers.paths import ROOT
from tests.helpers.postgres import Postgres, assert_counts_are_true
from tests.helpers.relay import TlsRelay
from tests.helpers.waiting import free_port, wait_until

pytestmark = pytest.mark.thorough

MANUAL = (ROOT / "docs/redis.md").read_text(encoding="utf-8")
SERVING = Scope("/c")
TASKS = 200
PATIENCE_S = 100.0


@pytest.fixture(autouse=True)
def campaign(queue: Client, postgres: Postgres) -> Iterator[Campaign]:
    """Give an open campaign, /c, with tasks; the counts equal a recount in the end."""
    made = servable(queue, tasks=TASKS)
    yield made
    assert_counts_are_true(postgres)


async def claimed(pool: Pool, session: int) -> list[Task]:
    """Return what a claim for 7 tasks gets."""
    tasks: asyncio.Future[list[Task]] = asyncio.get_running_loop().create_future()
    if not pool.submit(session, str(session), 7, SERVING, tasks.set_result):
        return []
    return await tasks


@asynccontextmanager
async def front(database: Database, url: str) -> AsyncIterator[Pool]:
    """Run a refiller meanwhile; give a gateway's pool, once the front has been begun."""
    address = FrontAddress.parsed(url)
    refilling = asyncio.create_task(Refiller(database, address).run())
    pool = Pool(database, address, CampaignCache())
    deadline = time.monotonic() + PATIENCE_S
    while not (database.row("front_state") or {})["epoch"]:
        assert time.monotonic() < deadline, "nobody has begun the front"
        await asyncio.sleep(0.01)
    await pool.start()
    try:
        yield pool
    finally:
        await pool.close()
        refilling.cancel()
        await asyncio.wait({refilling})


def served(database: Database, url: str) -> tuple[list[int], Pool]:
    """Claim all tasks through a pool that a refiller fills; return their numbers, and the pool."""

    async def scene() -> tuple[list[int], Pool]:
        tasks: list[Task] = []
        session = 0
        deadline = time.monotonic() + PATIENCE_S
        async with front(database, url) as pool:
            while len(tasks) < TASKS and time.monotonic() < deadline:
                session += 1
                if pool.has_entries(SERVING):
                    tasks += await claimed(pool, session)
                else:
                    await asyncio.sleep(0.01)
        return [task.task for task in tasks], pool

    return asyncio.run(scene())


Serves = Callable[[str], None]


@pytest.fixture
def assert_serves(database: Database, caplog: pytest.LogCaptureFixture) -> Serves:
    """Give a function that asserts: all tasks are handed out, each once, and nothing is refused."""

    def assert_all(url: str) -> None:
        with caplog.at_level(logging.WARNING, "taskq.front"):
            tasks, pool = served(database, url)
        assert len(set(tasks)) == len(tasks) == TASKS
        assert (pool.counters.forged, pool.counters.stale) == (0, 0)
        assert "refuses" not in caplog.text

    return assert_all


def with_user(server: RedisServer, password: str) -> str:
    """Make the user of the manual; return the address with it."""
    (line,) = re.findall(r"^ACL SETUSER .*$", MANUAL, re.MULTILINE)
    server.admin.execute_command(*shlex.split(line.replace("PASSWORD", password)))
    return server.url.replace("://", f"://taskq:{password}@")


def test_front_works_on_each_kind_of_server(
    any_redis_server: RedisServer, assert_serves: Serves
) -> None:
    """Redis from 6.2 on and Valkey: refiller and gateway find all that they need."""
    assert_serves(any_redis_server.url)


def test_user_of_the_manual_can_do_all_that_is_needed(
    any_redis_server: RedisServer,
    database: Database,
    assert_serves: Serves,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rights in docs/redis.md are enough for refiller, gateways and `taskq front`."""
    url = with_user(any_redis_server, "secret")
    any_redis_server.admin.acl_setuser("default", enabled=True, reset=True)
    assert_serves(url)
    monkeypatch.setenv("TASKQ_REDIS", url)
    taskq = CommandLine(database.dsn)
    assert taskq.json("front", "status")["trouble"] is None
    assert taskq.json("front", "flush")["epoch"] > 1


def test_user_of_the_manual_can_do_nothing_else(any_redis_server: RedisServer) -> None:
    """Neither to others' keys nor to the server."""
    url = with_user(any_redis_server, "secret")
    any_redis_server.admin.set("another", "1")
    with redis.Redis.from_url(url) as user:
        for words in (
            ("get", "another"),
            ("lpop", "another"),
            ("eval", "return redis.call('GET', KEYS[1])", "1", "another"),
            ("keys", "*"),
            ("flushall",),
            ("config", "get", "*"),
            ("shutdown",),
            ("publish", "channel", "text"),
        ):
            with pytest.raises(redis.ResponseError, match=r"(?i)permission"):
                user.execute_command(*words)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Give an authority."""
    return Certificates(tmp_path_factory.mktemp("certificates"))


def test_front_works_over_tls(
    redis_server: RedisServer, certificates: Certificates, assert_serves: Serves
) -> None:
    """With an authority of one's own, named in the address, and a password of the user."""
    authorised = with_user(redis_server, "secret")
    user = authorised.partition("://")[2].partition("@")[0]
    with TlsRelay(redis_server.socket, certificates.server("127.0.0.1")) as relay:
        assert_serves(f"rediss://{user}@127.0.0.1:{relay.port}?ssl_ca_certs={certificates.ca}")


def test_link_that_was_closed_leaves_nothing_open(
    redis_server: RedisServer, certificates: Certificates
) -> None:
    """At once, though TLS would have it wait until the other side has taken leave."""
    with (
        TlsRelay(redis_server.socket, certificates.server("127.0.0.1")) as relay,
        warnings.catch_warnings(record=True) as issued,
    ):
        warnings.simplefilter("always")
        for _ in range(5):  # who is the first to close is a matter of luck
            asyncio.run(
                shown_version(f"rediss://127.0.0.1:{relay.port}?ssl_ca_certs={certificates.ca}")
            )
            gc.collect()
    assert [str(warning.message) for warning in issued] == []


def test_front_with_an_invalid_certificate_is_not_used(
    redis_server: RedisServer, certificates: Certificates
) -> None:
    """Of an unknown authority, or of another name: the front counts as down."""
    trusted = f"?ssl_ca_certs={certificates.ca}"
    for name, options in (("127.0.0.1", ""), ("another.test", trusted)):
        with TlsRelay(redis_server.socket, certificates.server(name)) as relay:
            url = f"rediss://127.0.0.1:{relay.port}{options}"
            with pytest.raises(FrontDown, match="certificate verify failed"):
                asyncio.run(shown_version(url))
    assert not any(name.startswith("cmdstat_eval") for name in redis_server.admin.info("all"))


async def shown_version(url: str) -> str:
    """Return the version that a server names."""
    link = RedisLink(FrontAddress.parsed(url))
    try:
        return (await link.info(b"key")).version
    finally:
        await link.close()


@pytest.fixture
def cluster(start_redis: StartRedis) -> str:
    """Give the address of a cluster of two nodes, which share the slots."""
    nodes = [
        start_redis("--cluster-enabled", "yes", "--cluster-port", free_port(), tcp=True)
        for _ in range(2)
    ]
    for node, slots in zip(nodes, ((0, 8_191), (8_192, 16_383)), strict=True):
        node.admin.execute_command("CLUSTER", "ADDSLOTSRANGE", *slots)
    bus = nodes[1].admin.config_get("cluster-port")["cluster-port"]
    nodes[0].admin.execute_command("CLUSTER", "MEET", "127.0.0.1", nodes[1].port, bus)
    for node in nodes:
        wait_until(
            lambda node=node: node.admin.cluster("INFO")["cluster_state"] == "ok",
            timeout_s=PATIENCE_S,
        )
    return f"redis://127.0.0.1:{nodes[0].port}?cluster=true"


@pytest.mark.parametrize("dead", [(), (1, 2)], ids=["one node named", "dead ones named too"])
def test_front_works_in_a_cluster(
    cluster: str, assert_serves: Serves, dead: tuple[int, ...]
) -> None:
    """All keys of a queue are in one slot, and the node that has it is found from any."""
    named = "".join(f"127.0.0.1:{port}," for port in dead)
    assert_serves(cluster.replace("://", f"://{named}"))


def test_all_keys_of_a_queue_are_in_one_slot(redis_server: RedisServer) -> None:
    """Or a cluster would refuse the scripts."""
    keys = Keys("0123456789abcdef")
    slots = {
        redis_server.admin.cluster("KEYSLOT", key)
        for key in (keys.state, keys.wanted, keys.wake, keys.tasks(1), keys.tasks(2))
    }
    assert len(slots) == 1


@pytest.mark.parametrize("refusal", ["errorstat_OOM", "errorstat_READONLY"])
def test_server_that_takes_no_writes_leaves_everything_to_postgresql(
    start_redis: StartRedis, database: Database, campaign: Campaign, refusal: str
) -> None:
    """Out of memory, or no master: nothing is stocked, nothing stays leased, no claim fails."""
    server = start_redis()
    if refusal == "errorstat_OOM":
        server.admin.config_set("maxmemory", 1)
    else:
        master = start_redis(tcp=True)
        server.admin.replicaof("127.0.0.1", master.port)
        wait_until(lambda: server.admin.info("replication")["master_link_status"] == "up")

    async def scene() -> list[Task]:
        deadline = time.monotonic() + PATIENCE_S
        async with front(database, server.url) as pool:
            while refusal not in server.admin.info("errorstats"):
                assert time.monotonic() < deadline, "nobody has tried to write"
                assert not pool.has_entries(SERVING)
                await asyncio.sleep(0.01)
            return await claimed(pool, 1)

    assert asyncio.run(scene()) == []
    assert campaign.status().waiting == TASKS
