"""A synchronous standby that hangs: commits wait, until it goes on or Patroni takes another."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from tests.engines.load import SAID, Load
from tests.engines.test_patroni import Member, Patroni, patroni  # noqa: F401  # a fixture
from tests.fixtures.gateways import StartGateway, opened
from tests.gateway.site import upkeep

WAITING = "select from pg_stat_activity where wait_event = 'SyncRep'"


def synchronous(cluster: Patroni) -> Member | None:
    """Return the synchronous standby, if there is one."""
    ports = [one["port"] for one in cluster.cluster() if one["role"] == "sync_standby"]
    return next((one for one in cluster.members if one.port in ports), None)


@contextmanager
def stopped(member: Member) -> Iterator[None]:
    """Let PostgreSQL of a member do nothing meanwhile; its connections stay open."""
    pids = [int((member.data / "postmaster.pid").read_text().splitlines()[0])]
    os.kill(pids[0], signal.SIGSTOP)
    pids += [int(one.name) for one in Path("/proc").iterdir() if _parent(one) == pids[0]]
    try:
        for pid in pids[1:]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def commits_wait(cluster: Patroni) -> bool:
    """Tell whether commits wait for a standby."""
    with (
        suppress(psycopg.OperationalError),
        psycopg.connect(cluster.dsn, target_session_attrs="read-write") as leader,
    ):
        return bool(leader.execute(WAITING.encode()).fetchall())
    return False


def test_synchronous_standby_that_stalls_costs_no_task(
    patroni: Patroni,  # noqa: F811  # the fixture
    start_gateway: StartGateway,
    tmp_path: Path,
) -> None:
    """What waited is answered when it goes on; and when Patroni has taken another one."""
    gateway = start_gateway(on=patroni.dsn, expected=SAID)
    with opened(patroni.dsn) as queue, upkeep(patroni.dsn):
        load = Load(queue, gateway, tmp_path)
        with load.running():
            stalled = synchronous(patroni)
            assert stalled is not None
            with stopped(stalled):
                load.until(lambda: commits_wait(patroni), patroni.said)
            load.goes_on()
            load.until(patroni.is_whole, patroni.said)
            stalled = synchronous(patroni)
            assert stalled is not None
            with stopped(stalled):
                load.until(lambda: synchronous(patroni) not in {None, stalled}, patroni.said)
                load.goes_on()
            load.until(patroni.is_whole, patroni.said)
        load.assert_whole(once=True)
