"""Databases of other versions: brought up to date with what is in them, or refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

import taskq
from taskq.db import installed, migrations
from taskq.db.connections import Database
from taskq.model.errors import SchemaUnreleased, Unavailable
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
        ["agent", "run", "--until-empty", "--campaign", "/"],
        ["keeper"],
        ["gateway", "--listen", "127.0.0.1:0", "--plain"],
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


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that makes this process a later release, with files of its own."""
    shipped = installed.texts

    def release(migration: str = "select 1", **functions: str) -> None:
        def files(folder: str) -> tuple[tuple[str, str], ...]:
            if folder == "migrations":
                return (*shipped(folder), ("0099_later", migration))
            if folder == "functions":
                return tuple(sorted({**dict(shipped(folder)), **functions}.items()))
            return shipped(folder)

        for module in (installed, migrations):
            monkeypatch.setattr(module, "texts", files)
            for name in ("migration_digests", "digest"):
                monkeypatch.setattr(module, name, vars(module)[name].__wrapped__)

    return release


def test_function_with_another_result_is_replaced(
    database: Database, admin: psycopg.Connection, released: Callable[..., None]
) -> None:
    """Whatever has changed of it: columns, type, names, defaults, what kind of routine it is."""
    released(
        counts="""create or replace function taskq.counts(p_path text, p_most integer)
                  returns table (path text, news integer) language sql as $$ select 'x', 1 $$""",
        campaign_state="""create or replace function taskq.campaign_state(p_id bigint) returns text
                    language sql as $$ select 'renamed' $$""",
        submit="""create or replace function taskq.submit(
                      p_path text, p_tasks jsonb, p_on_conflict text)
                  returns integer language sql as $$ select 7 $$""",
        total="""create or replace function taskq.total(p_of bigint) returns bigint
                 language sql as $$ select p_of $$""",
        # It comes before the one that it calls, of which the old one has no such parameters.
        add_input="create or replace function taskq.add_input() returns text language sql"
        " as $$ select taskq.value_at(1, 2) $$",
        value_at="create or replace function taskq.value_at(p_a integer, p_b integer) returns text"
        " language sql as $$ select 'both' $$",
    )
    before, after = migrations.migrate(database)
    assert (before.version + 1, after.current) == (after.version, True)
    assert admin.execute("select * from taskq.counts('/', 1)").fetchone() == ("x", 1)
    assert admin.execute("select taskq.campaign_state(1), taskq.total(3)").fetchone() == (
        "renamed",
        3,
    )
    assert admin.execute("select taskq.submit('/', '[]', '')").fetchone() == (7,)
    assert admin.execute("select taskq.add_input()").fetchone() == ("both",)
    found = admin.execute(
        "select count(*), count(distinct proname) from pg_proc"
        " where pronamespace = 'taskq'::regnamespace"
    ).fetchone()
    assert found is not None
    assert found[0] == found[1], "a function of the release before is still there"


def test_migration_gives_up_a_table_that_others_keep(
    database: Database, admin: psycopg.Connection, released: Callable[..., None]
) -> None:
    """Else all agents would wait behind it for a reader that takes its time."""
    released("alter table taskq.task add column news integer")
    with admin.transaction(), psycopg.connect(database.dsn) as reader:
        reader.execute("select count(*) from taskq.task")
        with pytest.raises(Unavailable, match="pg_stat_activity"):
            migrations.migrate(database, lock_timeout_s=0.05)
        assert migrations.inspect(database).version == migrations.inspect(database).needed - 1
    assert migrations.migrate(database)[1].current


def test_migration_that_the_server_refuses_says_so(
    database: Database, released: Callable[..., None]
) -> None:
    """With the code for schemas, and nothing is half done."""
    before = database.rows("installation")
    released("create table taskq.news (); alter table taskq.task add column status text")
    line = CommandLine(database.dsn)
    code, error = line.refused("db", "migrate")
    assert code == 78
    assert 'changed nothing: column "status" of relation "task" already exists' in error
    assert database.value("server") is not None
    assert database.rows("installation") == before
