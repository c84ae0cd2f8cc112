"""Limits of time that an administrator sets for a database or a login."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from psycopg import sql

from taskq.db.connections import Database
from taskq.model.errors import Unavailable
from tests.helpers.postgres import Postgres, value

SHORT = "20ms"
NAP = "select pg_sleep(0.5)"


def in_one_statement(database: Database) -> None:
    """Run a statement that takes longer than the limit."""
    with database.connection() as statements:
        statements.script(NAP)


def in_a_transaction(database: Database) -> None:
    """Run two statements of a transaction, and wait on this side in between."""
    with database.transaction() as statements:
        statements.rows("installation")
        with database.connection() as others:
            others.script(f"set idle_session_timeout = 0; {NAP}")
        statements.rows("installation")


@pytest.mark.parametrize(
    ("setting", "work"),
    [
        ("statement_timeout", in_one_statement),
        ("transaction_timeout", in_one_statement),
        ("idle_in_transaction_session_timeout", in_a_transaction),
    ],
)
def test_limit_of_time_passes_and_is_named_with_the_remedy(
    database: Database, postgres: Postgres, setting: str, work: Callable[[Database], None]
) -> None:
    """An error that blames the login would make agents leave and gateways refuse them."""
    if not value(postgres, "select count(*) from pg_settings where name = %s", setting):
        pytest.skip("this release of PostgreSQL has no such limit")
    name = sql.Identifier(postgres.info.dbname)
    postgres.execute(
        sql.SQL("alter database {} set {} = {}").format(name, sql.SQL(setting), sql.Literal(SHORT))
    )
    with closing(Database(database.dsn).open()) as limited:
        with pytest.raises(Unavailable, match=f"`alter role LOGIN set {setting} = 0`") as cut:
            work(limited)
        assert "has cut this short" in str(cut.value)
    postgres.execute(sql.SQL("alter database {} reset all").format(name))
    with closing(Database(database.dsn).open()) as unlimited:
        work(unlimited)
