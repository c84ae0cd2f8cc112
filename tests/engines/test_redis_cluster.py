"""A cluster of Redis and of Valkey in front: the master with the lists is killed under load."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from taskq import Client
from taskq.front.entries import Keys
from tests.engines.load import LATER_S, SAID, Load, configured, is_master
from tests.fixtures.gateways import StartGateway
from tests.fixtures.redis_servers import RedisServer, StartRedis
from tests.helpers.postgres import Postgres, value
from tests.helpers.waiting import free_port, wait_until

MASTERS = 3
SLOTS = 16_384
KINDS = {"valkey": "valkey", "redis": "redis-of-the-system"}


class Cluster:
    """Three masters, each with a replica."""

    def __init__(self, start: Callable[[], RedisServer]) -> None:
        self.nodes = [start() for _ in range(2 * MASTERS)]
        first = self.nodes[0]
        for number, node in enumerate(self.nodes[:MASTERS]):
            ends = SLOTS * number // MASTERS, SLOTS * (number + 1) // MASTERS - 1
            node.admin.execute_command("CLUSTER", "ADDSLOTSRANGE", *ends)
        bus = first.admin.config_get("cluster-port")["cluster-port"]
        for node in self.nodes[1:]:
            node.admin.execute_command("CLUSTER", "MEET", "127.0.0.1", first.port, bus)
        replicas = self.nodes[MASTERS:]
        for node, master in zip(replicas, self.nodes, strict=False):
            wait_until(lambda node=node, master=master: replicates(node, master))
        for node in replicas:
            wait_until(lambda node=node: is_copied(node), timeout_s=LATER_S)
        for node in self.nodes:
            wait_until(lambda node=node: is_whole(node), timeout_s=LATER_S)

    @property
    def url(self) -> str:
        """The address, of all nodes."""
        return (
            f"redis://{','.join(f'127.0.0.1:{server.port}' for server in self.nodes)}?cluster=true"
        )

    def master_of(self, key: bytes) -> RedisServer:
        """Return the master that has a key."""
        for node in self.nodes:
            try:
                node.admin.exists(key)
            except redis.ResponseError:
                continue
            return node
        raise AssertionError("nobody has it")


def replicates(node: RedisServer, master: RedisServer) -> bool:
    """Make a node a replica; False: it does not know that master yet."""
    name = master.admin.execute_command("CLUSTER", "MYID")
    with suppress(redis.ResponseError):
        node.admin.execute_command("CLUSTER", "REPLICATE", name)
        return True
    return False


def is_copied(node: RedisServer) -> bool:
    """Return whether a replica is up to date."""
    return bool(node.admin.info("replication")["master_link_status"] == "up")


def is_whole(node: RedisServer) -> bool:
    """Return whether a node knows all others, and that all slots are served."""
    info = node.admin.cluster("INFO")
    known = info["cluster_known_nodes"] == str(2 * MASTERS)
    return known and info["cluster_state"] == "ok"


def start_cluster(kind: str, start_redis: StartRedis) -> Cluster:
    """Start a cluster of a kind of server."""

    def start() -> RedisServer:
        text = configured("node.conf", {"port 7000\n": ""})
        options: list[str] = []
        for line in text.splitlines():
            if line and not line.startswith("#"):
                name, _, setting = line.partition(" ")
                options += [f"--{name}", setting.strip('"')]
        return start_redis(*options, "--cluster-port", free_port(), name=KINDS[kind], tcp=True)

    return Cluster(start)


@pytest.fixture(params=KINDS)
def cluster(request: pytest.FixtureRequest, start_redis: StartRedis) -> Cluster:
    """Give a cluster of each kind of server."""
    return start_cluster(request.param, start_redis)


def test_master_that_is_killed_costs_no_task(
    cluster: Cluster,
    queue: Client,
    start_gateway: StartGateway,
    tmp_path: Path,
    postgres: Postgres,
) -> None:
    """Claims go to PostgreSQL until a replica has taken over, and then to that."""
    gateway = start_gateway("--redis", cluster.url, keeper=True, expected=SAID)
    load = Load(queue, gateway, tmp_path)
    with load.running():
        load.until(lambda: load.hits() > 0)
        key = Keys(value(postgres, "select taskq.front_name() as name")).state
        master = cluster.master_of(key)
        replica = cluster.nodes[cluster.nodes.index(master) + MASTERS]
        master.kill()
        load.until(lambda: is_master(replica))
        hits = load.hits()
        load.until(lambda: load.hits() > hits)
    load.assert_whole(once=False)
