"""HAProxy in front of Patroni: one address that leads to the leader, and one to its standbys."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from taskq.db.connections import Database
from taskq.model.errors import TaskqError
from tests.engines.load import LATER_S, SAID, Load, configured, program
from tests.engines.test_patroni import (
    Patroni,
    change_leaders,
    patroni,  # noqa: F401  # a fixture
)
from tests.fixtures.gateways import StartGateway, opened
from tests.helpers.command_line import CommandLine
from tests.helpers.waiting import free_port, wait_until
from tests.integration.gateway.site import upkeep


class Proxy:
    """HAProxy with the file of docs. leader, standbys: DSNs that lead there."""

    def __init__(self, behind: Patroni, folder: Path) -> None:
        ports = [free_port() for _ in range(2)]
        changes = {"bind :5000": f"bind 127.0.0.1:{ports[0]}"}
        changes |= {"bind :5001": f"bind 127.0.0.1:{ports[1]}"}
        for number, member in enumerate(behind.members, 1):
            there = f"db{number}.example.org:5432 port 8008"
            changes[there] = f"127.0.0.1:{member.port} port {member.rest}"
        file, self._log = folder / "haproxy.cfg", folder / "haproxy.log"
        file.write_text(configured("haproxy-postgresql.cfg", changes))
        self.leader, self.standbys = (
            f"host=127.0.0.1 port={port} dbname=postgres user=postgres password=secret1"
            for port in ports
        )
        self._command = [program("haproxy", "haproxy"), "-db", "-f", str(file)]
        self.start()

    def start(self) -> None:
        """Start it."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def close(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait(LATER_S)

    def leads(self) -> bool:
        """Return whether the server that takes writes is reached through it."""
        database = Database(self.leader)
        try:
            database.open()
        except TaskqError:
            return False
        finally:
            database.close()
        return True

    def said(self) -> str:
        """Return its log."""
        return self._log.read_text()


@contextmanager
def proxied(behind: Patroni, folder: Path) -> Iterator[Proxy]:
    """Give a proxy that is up."""
    proxy = Proxy(behind, folder)
    try:
        wait_until(proxy.leads, timeout_s=LATER_S, on_timeout=proxy.said)
        yield proxy
    finally:
        proxy.close()


def test_leader_that_is_killed_behind_haproxy_costs_no_task(
    patroni: Patroni,  # noqa: F811  # the fixture
    start_gateway: StartGateway,
    tmp_path: Path,
) -> None:
    """A leader that hands over loses none either; and a standby is read through it."""
    with proxied(patroni, tmp_path) as proxy:
        gateway = start_gateway(on=proxy.leader, expected=SAID)
        with opened(proxy.leader) as queue, upkeep(proxy.leader):
            load = Load(queue, gateway, tmp_path)
            with load.running():
                change_leaders(patroni, load)
            load.assert_whole(once=True)
        line = CommandLine(proxy.leader)
        read = ("status", load.path, "--read-dsn", proxy.standbys)
        wait_until(
            lambda: line.json(*read)["behind_s"] is not None,
            timeout_s=LATER_S,
            on_timeout=proxy.said,
        )
        assert line.json(*read)["done"] == line.json("status", load.path)["done"]
