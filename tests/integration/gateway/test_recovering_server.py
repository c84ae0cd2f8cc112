"""Agents, gateways and keepers while the database is away or recovers: they wait for it."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from taskq.db.gateway_queries import GatewayQueries
from taskq.db.starting import is_starting
from taskq.embedded import Server, locate
from taskq.embedded.account import launch, server_account
from taskq.embedded.installation import reachable
from taskq.embedded.postmaster import clear_stale
from taskq.embedded.settings import write_settings
from taskq.model.errors import Unavailable
from tests.fixtures.gateways import Realm, StartGateway, opened
from tests.fixtures.own_servers import own_server  # noqa: F401  # a fixture, for the tests here
from tests.helpers.campaigns import servable
from tests.helpers.command_line import CommandLine
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.thorough

LATER_S = 100.0


class Recovering:
    """A server that recovers until the test ends that: a standby without a primary.

    It lets nobody in meanwhile. dsn: its address.
    """

    def __init__(self, server: Server, dsn: str) -> None:
        self.dsn = dsn
        home = server.home
        self._data = home.data
        self._account = server_account(home.data)
        self._programs = reachable(locate(), self._account, home).bin_dir
        with (home.conf / "user.conf").open("a") as settings:
            settings.write("hot_standby = off\n")
        signal = home.data / "standby.signal"
        signal.touch()
        os.chown(signal, self._account.uid, self._account.gid)
        folder = home.make_socket_dir(self._account)
        conf = write_settings(home, self._account, folder)
        clear_stale(home.data, folder)
        words = [self._programs / "postgres", "-D", home.data, f"--config_file={conf}"]
        launch(words, self._account, home.log)
        wait_until(lambda: is_starting(dsn), timeout_s=LATER_S, on_timeout=home.log.read_text)

    def end(self) -> None:
        """Let it serve."""
        words = [self._programs / "pg_ctl", "promote", "--no-wait", "-D", self._data]
        done = self._account.run(words, timeout_s=LATER_S)
        assert done.returncode == 0, done.stdout


@pytest.fixture
def recovering(own_server: Server) -> Recovering:  # noqa: F811  # the fixture of that name
    """Give a server that recovers, with a campaign of one task."""
    info = own_server.status()
    assert info is not None
    with opened(info.dsn) as queue:
        servable(queue, tasks=1)
    own_server.down()
    return Recovering(own_server, info.dsn)


def test_gateways_and_agents_wait_for_a_server_that_recovers(
    recovering: Recovering, tmp_path: Path
) -> None:
    """Each says so, and begins when it can; a command that only looks ends at once.

    The address sets a limit on connecting, as it should where several hosts are named.
    """
    taskq = CommandLine(make_conninfo(recovering.dsn, connect_timeout=3))
    taskq.environment["PGHOSTADDR"] = "127.0.0.9"  # nobody is there
    code, error = taskq.refused("status")
    assert code == 69
    # At first it starts, and then it recovers.
    assert "is starting up" in error or "is not accepting connections" in error
    kinds: dict[str, list[object]] = {
        "agent": ["agent", "run", "--campaign", "/c", "--until-empty"],
        "gateway": ["gateway", "--listen", "127.0.0.1:0"],
        "keeper": ["keeper"],
        "pages": ["gateway", "--listen", "127.0.0.1:0", "--pages"],
        "web": ["web", "--listen", "127.0.0.1:0"],
    }
    processes: dict[str, subprocess.Popen[str]] = {}
    with ExitStack() as stack:
        for kind, words in kinds.items():
            log = stack.enter_context((tmp_path / kind).open("wb"))
            processes[kind] = stack.enter_context(taskq.process(*words, stdout=log, stderr=log))
        for kind, process in processes.items():
            wait_until(
                lambda kind=kind: "waiting for it" in (tmp_path / kind).read_text(),
                timeout_s=LATER_S,
            )
            assert process.poll() is None
        recovering.end()
        assert processes["agent"].wait(LATER_S) == 0, (tmp_path / "agent").read_text()
        for kind in ("gateway", "pages", "web"):
            wait_until(
                lambda kind=kind: "http://" in (tmp_path / kind).read_text(), timeout_s=LATER_S
            )
        for kind in ("gateway", "keeper", "pages", "web"):
            processes[kind].terminate()
            assert processes[kind].wait(LATER_S) == 0, (tmp_path / kind).read_text()
    with opened(recovering.dsn) as queue:
        assert queue.campaign("/c").status().done == 1


#: Longer than a busy machine keeps a process waiting: nobody may be lost by that.
LEASE_S = 12.0


def test_gateway_outlives_its_database(
    own_server: Server,  # noqa: F811  # the fixture
    start_gateway: StartGateway,
) -> None:
    """503 with Retry-After meanwhile; then it serves again, the same sessions with the same leases.

    The outage is longer than a lease: time in which the database was down counts against nobody.
    """
    dsn = own_server.up().dsn
    gateway = start_gateway(
        "--lease", LEASE_S, on=dsn, expected=["database", "trying again", "works"]
    )
    with opened(dsn) as queue:
        place = Realm(queue, gateway)
        place.seed(3)
    agent, stranger = place.agent(), place.agent()
    held, done = agent.claim(2)
    metrics = gateway.ask("GET", "/metrics", token=place.manager).body
    assert b"taskq_agents_held" in metrics
    own_server.down(immediate=True)
    down_at = time.monotonic()
    metrics = gateway.ask("GET", "/metrics", token=place.manager).body
    assert b"taskq_gateway_tasks_total" in metrics
    assert b"taskq_agents_held" not in metrics
    report = {name: done[name] for name in ("campaign", "task", "lease")} | {"outcome": "done"}
    refused = [
        agent.exchange(reports=[report]),
        agent.exchange(want=1, lease=agent.lease()),
        stranger.exchange(want=1, lease=stranger.lease(), wait_s=1),
        agent.beat(held, done, pending=[agent.drawn]),
        gateway.ask("GET", "/readyz"),
        gateway.ask("POST", "/v1/sessions", token=place.site, body=agent.hello),
    ]
    for reply in refused:
        assert (reply.status, reply.code) == (503, "unavailable")
        assert 0 < float(reply.headers["retry-after"]) < 60
        assert str(dsn.split("host=")[1][:12]) not in reply.body.decode()
    with pytest.raises(Unavailable, match="database"):
        GatewayQueries(gateway.url, place.manager).open()
    assert gateway.ask("GET", "/healthz").status == 200
    wait_until(lambda: time.monotonic() > down_at + 1.2 * LEASE_S)
    own_server.up()
    wait_until(lambda: gateway.ask("GET", "/readyz").status == 200)
    wait_until(lambda: agent.exchange(reports=[report]).status == 200)
    assert agent.exchange(reports=[report]).json["acks"][0]["verdict"] == "duplicate"
    assert agent.beat(held).json["stop"] == []
    with opened(dsn) as queue, psycopg.connect(dsn, autocommit=True) as behind:
        behind.execute("select taskq.expire()")
        assert queue.campaign(place.path).status().losses == 0
    assert len(agent.claim(1, wait_s=5)) == 1
    assert agent.report(held) == ["accepted"]


def test_gateway_without_a_database_does_not_start(
    tmp_path: Path, start_gateway: StartGateway
) -> None:
    """It says so, instead of serving refusals."""
    with pytest.raises(AssertionError, match="has not started: Error: "):
        start_gateway(on=f"postgresql://taskq@/taskq?host={tmp_path}")
