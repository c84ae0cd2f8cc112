"""Logins store where the queue counts it, and nowhere else, if only taskq uses the database."""

from __future__ import annotations

import psycopg
import pytest

from taskq.db import migrations
from taskq.db.connections import Database
from taskq.db.storage_rights import open_places
from tests.fixtures.logins import Staff
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres

ATTACKS = {
    "temporary table": "create temporary table t as select 1",
    "large object": "select lo_creat(-1)",
    "large object with an id": "select lo_create(0)",
    "large object with content": "select lo_from_bytea(0, 'x')",
    "table in public": "create table public.t as select 1",
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
@pytest.mark.parametrize("role", ["reader", "agent"])
def test_login_stores_nothing_of_its_own(staff: Staff, role: str, attack: str) -> None:
    """Neither large objects nor tables."""
    with (
        psycopg.connect(staff.login(role).dsn, autocommit=True) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(attack.encode())


def test_database_of_others_too_stays_as_it_is(empty_dsn: str) -> None:
    """They may need what taskq does not: it only says what is open, and what closes it."""
    with psycopg.connect(empty_dsn, autocommit=True) as other:
        other.execute("create table public.theirs (x int)")
        database = Database(empty_dsn).open()
        migrations.migrate(database)
        places = open_places(database)
        assert {"temporary tables", "large objects"} <= places.keys()
        assert CommandLine(empty_dsn).json("db", "status")["open_to_all"] == places
        shown = CommandLine(empty_dsn).out("db", "status")
        assert all(remedy in shown for remedy in places.values())
        for place, remedy in places.items():
            if place != "files of large sorts":  # of the whole server
                other.execute(remedy.encode())
        assert open_places(database).keys() <= {"files of large sorts"}
        database.close()


def test_owner_may_still_store(dsn: str, postgres: Postgres) -> None:
    """Such as for a repair."""
    assert dsn
    postgres.execute("create temporary table t as select lo_creat(-1)")
