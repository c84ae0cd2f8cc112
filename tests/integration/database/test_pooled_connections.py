"""Connections of the pool are checked before use, by a round trip only where that can be news."""

from __future__ import annotations

import psycopg_pool
import pytest

from taskq import Client
from taskq.db import connections
from tests.helpers.postgres import Postgres


@pytest.fixture
def checks(queue: Client, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Note the connections that are checked by a round trip."""
    made: list[object] = []
    check = psycopg_pool.ConnectionPool.check_connection
    queue.queries.value("backend")
    monkeypatch.setattr(
        psycopg_pool.ConnectionPool,
        "check_connection",
        lambda connection: made.append(connection) or check(connection),
    )
    monkeypatch.setattr(connections, "USED_LATELY_S", 1e9)
    return made


def test_one_that_was_used_lately_costs_no_round_trip(
    queue: Client, checks: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a pause it is checked."""
    pid = queue.queries.value("backend")
    assert queue.queries.value("backend") == pid
    assert checks == []
    monkeypatch.setattr(connections, "USED_LATELY_S", 0.0)
    assert queue.queries.value("backend") == pid
    assert len(checks) == 1


def test_one_whose_server_has_hung_up_is_replaced(
    queue: Client, checks: list[object], postgres: Postgres
) -> None:
    """No statement fails, however lately it was used."""
    pid = queue.queries.value("backend")
    postgres.execute("select pg_terminate_backend(%s, 60000)", (pid,))
    assert queue.queries.value("backend") != pid
    assert checks
