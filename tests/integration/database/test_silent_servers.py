"""A server that is frozen answers nobody, while its connections stay open: they are abandoned."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from functools import partial

import pytest
from psycopg.conninfo import make_conninfo

from taskq.db import silence
from taskq.db.connections import Database
from taskq.model.errors import Unavailable
from tests.fixtures.replicas import Pair, pair  # noqa: F401  # a fixture, for the tests here
from tests.helpers.postgres import Postgres
from tests.helpers.waiting import wait_until

PATIENCE_S = 0.3
LATER_S = 100.0


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait as long as others do, and know of no server that was silent before."""
    monkeypatch.setattr(silence, "PATIENCE_S", PATIENCE_S)
    monkeypatch.setattr(silence, "_silent_at", {})


def answers(ask: Callable[[], object]) -> bool:
    """Return whether a server answers."""
    try:
        ask()
    except Unavailable:
        return False
    return True


def test_connections_of_all_kinds_leave_a_frozen_server(
    pair: Pair,  # noqa: F811  # the fixture
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pool's that are idle, a dedicated one, and one for asyncio."""
    monkeypatch.setattr(silence, "ANSWER_S", PATIENCE_S)
    dsn = make_conninfo(pair.primary_first_dsn, connect_timeout=2)
    loop = asyncio.new_event_loop()
    with closing(loop), closing(Database(dsn).open()) as database:
        alone = database.dedicated_async_connection()
        dedicated = database.dedicated_connection()

        def ask_dedicated() -> object:
            with dedicated.connected() as statements:
                return statements.rows("timeline")

        asked = [
            lambda: database.rows("timeline"),
            ask_dedicated,
            lambda: loop.run_until_complete(alone.rows("timeline")),
        ]
        for ask in asked:
            ask()
        with pair.primary_frozen():
            pair.promote()
            for ask in asked:
                wait_until(partial(answers, ask), timeout_s=LATER_S)
        dedicated.close()
        loop.run_until_complete(alone.close())


@pytest.mark.thorough
def test_statement_that_takes_long_is_waited_for(database: Database, postgres: Postgres) -> None:
    """However long it is: the server answers others meanwhile."""
    with ThreadPoolExecutor() as threads:
        with postgres.transaction():
            postgres.execute("lock table taskq.campaign")
            answer = threads.submit(database.rows, "campaign", path="/c")
            waits = "select from pg_locks where waitstart < clock_timestamp() - %s"
            long = timedelta(seconds=10 * PATIENCE_S)
            wait_until(lambda: postgres.execute(waits, [long]).fetchall(), timeout_s=LATER_S)
            assert not answer.done()
        assert answer.result(LATER_S) == []
