"""Sentinels name the server in front: it is killed under load, and its replica takes over."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from taskq import Client
from tests.engines.load import LATER_S, SAID, Load, configured, is_master
from tests.fixtures.gateways import StartGateway
from tests.fixtures.redis_servers import PROGRAMS, StartRedis
from tests.helpers.command_line import CommandLine
from tests.helpers.waiting import free_port, wait_until

SENTINELS = 3


class Watched:
    """A server with a replica, and the Sentinels that watch them."""

    def __init__(self, start_redis: StartRedis, folder: Path, stack: ExitStack) -> None:
        self.master, self.replica = (start_redis(tcp=True) for _ in range(2))
        self.replica.admin.replicaof("127.0.0.1", self.master.port)
        wait_until(self._is_copied, timeout_s=LATER_S)
        self._ports = [free_port() for _ in range(SENTINELS)]
        for port in self._ports:
            file = folder / f"sentinel-{port}.conf"
            place = f"taskq 127.0.0.1 {self.master.port} 2"
            changes = {"port 26379": f"port {port}", "taskq redis1.example.org 6379 2": place}
            file.write_text(configured("sentinel.conf", changes) + f"dir {folder}\n")
            started = stack.enter_context(
                subprocess.Popen(
                    [PROGRAMS["valkey"], file, "--sentinel"], stdout=subprocess.DEVNULL
                )
            )
            stack.callback(started.kill)
        for port in self._ports:
            wait_until(lambda port=port: self._knows_others(port), timeout_s=LATER_S)

    @property
    def url(self) -> str:
        """The address, of all Sentinels."""
        return f"redis+sentinel://{','.join(f'127.0.0.1:{port}' for port in self._ports)}/taskq"

    def _is_copied(self) -> bool:
        return bool(self.replica.admin.info("replication").get("master_link_status") == "up")

    def _knows_others(self, port: int) -> bool:
        words = ["redis-cli", "-p", str(port), "sentinel", "master", "taskq"]
        fields = subprocess.run(words, capture_output=True, text=True, check=False).stdout.split()
        others = "num-other-sentinels"
        return others in fields and fields[fields.index(others) + 1] == str(SENTINELS - 1)


@pytest.fixture
def watched(start_redis: StartRedis, tmp_path: Path) -> Iterator[Watched]:
    """Give them."""
    with ExitStack() as stack:
        yield Watched(start_redis, tmp_path, stack)


def test_server_that_is_killed_costs_no_task(
    watched: Watched, queue: Client, start_gateway: StartGateway, tmp_path: Path
) -> None:
    """Claims go to PostgreSQL until the replica has taken over, and then to that."""
    gateway = start_gateway("--redis", watched.url, keeper=True, expected=SAID)
    load = Load(queue, gateway, tmp_path)
    with load.running():
        load.until(lambda: load.hits() > 0)
        watched.master.kill()
        load.goes_on()
        load.until(lambda: is_master(watched.replica))
        hits = load.hits()
        load.until(lambda: load.hits() > hits)
        taskq = CommandLine(gateway.dsn)
        assert taskq.json("front", "status", "--redis", watched.url)["trouble"] is None
    load.assert_whole(once=False)
