"""A synchronous standby that hangs: commits wait, until it goes on or Patroni takes another."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psycopg

from tests.engines.load import LATER_S, SAID, Load
from tests.engines.test_patroni import MEMBERS, Member, Patroni, patroni  # noqa: F401  # a fixture
from tests.fixtures.gateways import StartGateway, opened
from tests.helpers.freezing import frozen
from tests.helpers.waiting import wait_until
from tests.integration.gateway.site import upkeep

WAITING = "select from pg_stat_activity where wait_event = 'SyncRep'"
FOLLOWING = "select from pg_stat_replication where state = 'streaming'"


def synchronous(cluster: Patroni) -> Member | None:
    """Return the synchronous standby, if there is one."""
    ports = [record["port"] for record in cluster.cluster() if record["role"] == "sync_standby"]
    return next((member for member in cluster.members if member.port in ports), None)


def rows(cluster: Patroni, query: str) -> int:
    """Return how many rows a query has at the leader."""
    with (
        suppress(psycopg.OperationalError),
        psycopg.connect(cluster.dsn, target_session_attrs="read-write") as leader,
    ):
        return len(leader.execute(query.encode()).fetchall())
    return 0


def both_follow(cluster: Patroni) -> bool:
    """Return whether both standbys get what the leader writes, one of them synchronously."""
    return cluster.is_whole() and rows(cluster, FOLLOWING) == MEMBERS - 1


def test_synchronous_standby_that_stalls_costs_no_task(
    patroni: Patroni,  # noqa: F811  # the fixture
    start_gateway: StartGateway,
    tmp_path: Path,
) -> None:
    """What waited is answered when it goes on; and when Patroni has taken another one."""
    wait_until(lambda: both_follow(patroni), timeout_s=LATER_S, on_timeout=patroni.said)
    gateway = start_gateway(on=patroni.dsn, expected=SAID)
    with opened(patroni.dsn) as queue, upkeep(patroni.dsn):
        load = Load(queue, gateway, tmp_path)
        with load.running():
            stalled = synchronous(patroni)
            assert stalled is not None
            with frozen(stalled.data):
                load.until(lambda: rows(patroni, WAITING) > 0, patroni.said)
            load.goes_on()
            load.until(lambda: both_follow(patroni), patroni.said)
            stalled = synchronous(patroni)
            assert stalled is not None
            with frozen(stalled.data):
                load.until(lambda: synchronous(patroni) not in {None, stalled}, patroni.said)
                load.goes_on()
            load.until(lambda: both_follow(patroni), patroni.said)
        load.assert_whole(once=True)
