"""Databases of other versions: brought up to date with what is in them, or refused."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

import taskq
from taskq.db import migrations
from taskq.db.connections import Database
from taskq.errors import SchemaUnreleased
from tests.helpers.command_line import CommandLine
from tests.helpers.schema import described


@pytest.fixture
def admin(dsn: str) -> Iterator[psycopg.Connection]:
    """Give a connection of the schema's owner."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def refused(dsn: str) -> None:
    """Check that neither a client nor a migration takes the database, and nothing changes."""
    before = described(dsn)
    with pytest.raises(SchemaUnreleased, match="cannot be upgraded; export the results"):
        taskq.connect(dsn)
    database = Database(dsn).open()
    try:
        with pytest.raises(SchemaUnreleased):
            migrations.migrate(database)
    finally:
        database.close()
    line = CommandLine(dsn)
    for words in (
        ["db", "migrate"],
        ["status"],
        ["agent", "run", "--campaign", "/"],
        ["keeper"],
        ["gateway", "--port", "0", "--plain"],
    ):
        code, error = line.refused(*words)
        assert (code, "or another TASKQ_HOME" in error) == (78, True), error
        assert "newer" not in error
    assert "unreleased" in line("db", "status").stdout
    assert described(dsn) == before


def test_schema_that_did_not_record_its_migrations_is_refused(
    dsn: str, admin: psycopg.Connection
) -> None:
    """Versions before the first release counted 28 migrations, more than this one has."""
    admin.execute("alter table taskq.installation drop column migrations, add version int")
    admin.execute("update taskq.installation set version = 28")
    refused(dsn)


def test_schema_whose_migration_was_edited_is_refused(dsn: str, admin: psycopg.Connection) -> None:
    """Before the first release migrations are edited in place: the tables may be any."""
    admin.execute("update taskq.installation set migrations[2] = 'as it was before'")
    refused(dsn)


def test_unreleased_schema_with_more_migrations_is_not_taken_for_a_newer_one(
    dsn: str, admin: psycopg.Connection
) -> None:
    """A newer release has all migrations of this one, and then its own."""
    admin.execute("update taskq.installation set migrations = array_fill('of yore'::text, '{9}')")
    refused(dsn)
