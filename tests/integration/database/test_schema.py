"""The schema: what the migrations make, who may use it, and databases that do not fit."""

from __future__ import annotations

import importlib.resources
import secrets
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import taskq
from taskq.db import migrations
from taskq.db.catalogue import all_statements
from taskq.db.connections import Database
from taskq.db.sql_files import files_of
from taskq.model.errors import (
    MigrationFailed,
    SchemaMissing,
    SchemaNewer,
    SchemaOlder,
    Unavailable,
    UsageError,
)
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, value
from tests.helpers.schema import described


@pytest.fixture
def empty(empty_dsn: str) -> Iterator[Database]:
    """Give a database without the schema."""
    database = Database(empty_dsn).open()
    yield database
    database.close()


@pytest.fixture
def stranger(dsn: str, postgres: Postgres) -> Iterator[psycopg.Connection]:
    """Give a connection as a role that has been given nothing."""
    role = sql.Identifier(f"stranger_{secrets.token_hex(4)}")
    postgres.execute(sql.SQL("create role {}").format(role))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("set role {}").format(role))
        yield connection
    postgres.execute(sql.SQL("drop owned by {}").format(role))
    postgres.execute(sql.SQL("drop role {}").format(role))


def role_of(connection: psycopg.Connection) -> sql.Identifier:
    """Return the role that a connection acts as."""
    (name,) = connection.execute("select current_role").fetchone() or ("",)
    return sql.Identifier(name)


def test_schema_equals_its_snapshot(dsn: str) -> None:
    """What migrations and functions install is in sql/schema.txt, which `make schema` writes."""
    snapshot = importlib.resources.files("taskq.sql").joinpath("schema.txt").read_text("utf-8")
    assert described(dsn) == snapshot


def test_every_table_says_what_it_is_for(postgres: Postgres) -> None:
    """A comment stands with each table and view, for those who look at a database."""
    silent = postgres.execute(
        "select relname from pg_class where relnamespace = 'taskq'::regnamespace"
        " and relkind in ('r', 'p', 'v') and obj_description(oid, 'pg_class') is null"
    ).fetchall()
    assert silent == []


def test_every_function_is_a_file_of_its_name(postgres: Postgres) -> None:
    """Anyone who looks for one finds it, and a removed file does not live on in new databases."""
    names = [
        row["proname"]
        for row in postgres.execute(
            "select proname from pg_proc where pronamespace = 'taskq'::regnamespace"
        )
    ]
    # One of each: a release may have to drop it by name.
    assert sorted(names) == list(files_of("functions"))


def test_functions_with_the_owners_rights_look_nothing_up_elsewhere(postgres: Postgres) -> None:
    """Their search path is pinned, and temporary objects come last in it.

    All others are internal, or read nothing, and run with that of their caller.
    """
    rows = postgres.execute(
        "select proname, prosecdef, provolatile, proconfig from pg_proc"
        " where pronamespace = 'taskq'::regnamespace"
    ).fetchall()
    definers = [row for row in rows if row["prosecdef"]]
    called = {statement.name for statement in all_statements().values() if statement.is_function}
    reading = {row["proname"] for row in rows if row["provolatile"] != "i"}
    assert {row["proname"] for row in definers} == called & reading
    for row in definers:
        (path,) = [item for item in row["proconfig"] or [""] if item.startswith("search_path=")]
        assert path == "search_path=pg_catalog, pg_temp", row["proname"]


def test_nothing_is_anybodys_until_it_is_granted(postgres: Postgres) -> None:
    """No function, table, sequence or the schema itself has a grant to others than its owner."""
    granted = postgres.execute(
        "select n.name from ("
        " select proname as name, proowner as owner, coalesce(proacl, acldefault('f', proowner))"
        " from pg_proc where pronamespace = 'taskq'::regnamespace"
        " union all select relname, relowner, coalesce(relacl, acldefault("
        " case relkind when 'S' then 's' else 'r' end::\"char\", relowner))"
        " from pg_class where relnamespace = 'taskq'::regnamespace"
        " union all select nspname, nspowner, nspacl from pg_namespace where nspname = 'taskq'"
        ") n (name, owner, acl) cross join lateral aclexplode(n.acl) a where a.grantee <> n.owner"
    ).fetchall()
    assert granted == []


def test_strangers_may_do_nothing(stranger: psycopg.Connection, postgres: Postgres) -> None:
    """Neither see a table nor call a function, also once they may enter the schema."""
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="schema taskq"):
        stranger.execute("select * from taskq.state")
    role = role_of(stranger)
    postgres.execute(sql.SQL("grant usage on schema taskq to {}").format(role))
    for statement in (
        "select * from taskq.state",
        "select taskq.expire()",
        "select * from taskq.counts('/', 0)",
        "select taskq.claim('/', 1, gen_random_uuid())",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            stranger.execute(statement)


def test_role_that_may_execute_the_verbs_needs_no_right_on_tables(
    stranger: psycopg.Connection, postgres: Postgres
) -> None:
    """An agent's role gets EXECUTE and nothing else."""
    role = role_of(stranger)
    postgres.execute(sql.SQL("grant usage on schema taskq to {}").format(role))
    for verb in ("open_session", "claim", "complete"):
        postgres.execute(
            sql.SQL("grant execute on function taskq.{} to {}").format(sql.Identifier(verb), role)
        )
    postgres.execute("select taskq.create_campaign('/c')")
    postgres.execute("""select taskq.submit('/c', '[{"key": "a", "payload": {}}]')""")
    (session,) = stranger.execute(
        "select taskq.open_session('/c', gen_random_uuid())"
    ).fetchone() or pytest.fail("no session")
    claimed = stranger.execute(
        "select task_id from taskq.claim('/c', %s, '00000000-0000-7000-8000-000000000001')",
        [session],
    ).fetchone()
    assert claimed is not None
    verdict = stranger.execute(
        "select taskq.complete('/c', %s, '00000000-0000-7000-8000-000000000001')", claimed
    ).fetchone()
    assert verdict == ("accepted",)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        stranger.execute("select taskq.expire()")


def test_migrating_twice_changes_nothing(empty: Database) -> None:
    """The second time there is nothing to do."""
    before, after = migrations.migrate(empty)
    assert (before.version, before.current, after.current) == (0, False, True)
    once = described(empty.dsn)
    assert migrations.migrate(empty) == (after, after)
    assert described(empty.dsn) == once


def test_two_migrations_at_once_end_well(empty: Database) -> None:
    """One waits for the other, and finds it done."""
    start = Barrier(3)

    def migrate(_: int) -> tuple[bool, bool]:
        start.wait()
        before, after = migrations.migrate(empty)
        return before.current, after.current

    with ThreadPoolExecutor(3) as pool:
        outcomes = sorted(pool.map(migrate, range(3)))
    assert outcomes == [(False, True), (True, True), (True, True)]


def test_migration_that_fails_leaves_nothing(empty: Database) -> None:
    """All of it happens, or nothing."""
    with psycopg.connect(empty.dsn) as blocker:
        blocker.execute("create schema taskq")
    with pytest.raises(MigrationFailed, match='changed nothing: schema "taskq" already exists'):
        migrations.migrate(empty)
    assert migrations.inspect(empty).version == 0
    with psycopg.connect(empty.dsn) as look:
        assert look.execute(
            "select count(*) from pg_type where typname = 'task_status'"
        ).fetchone() == (0,)


def test_functions_of_another_release_are_replaced(database: Database, postgres: Postgres) -> None:
    """Functions are put in place again whenever one of them differs from this release's."""
    postgres.execute(
        "create or replace function taskq.fold() returns int language sql as 'select 7'"
    )
    postgres.execute("update taskq.installation set functions = 'older'")
    with pytest.raises(SchemaOlder, match="taskq db migrate"):
        migrations.require(database)
    migrations.migrate(database)
    migrations.require(database)
    assert value(postgres, "select taskq.fold()") == 0


def test_connecting_to_a_database_without_the_schema_names_the_remedy(empty: Database) -> None:
    """It creates nothing."""
    with pytest.raises(SchemaMissing, match="run `taskq db migrate`"):
        taskq.connect(empty.dsn)
    assert migrations.inspect(empty).version == 0


def test_schema_of_a_newer_release_is_left_alone(database: Database, postgres: Postgres) -> None:
    """Neither used nor changed."""
    postgres.execute("update taskq.installation set migrations = migrations || 'made later'::text")
    with pytest.raises(SchemaNewer, match="newer release"):
        taskq.connect(database.dsn)
    with pytest.raises(SchemaNewer, match="newer release"):
        migrations.migrate(database)


def test_schema_of_an_older_release_is_named(database: Database, postgres: Postgres) -> None:
    """With both versions, or as what differs when that is the functions alone."""
    postgres.execute("update taskq.installation set functions = 'older'")
    with pytest.raises(SchemaOlder, match=r"functions are those of another.*taskq db migrate"):
        taskq.connect(database.dsn)
    migrations.migrate(database)
    taskq.connect(database.dsn).close()


@pytest.mark.parametrize("address", ["host=/nonexistent dbname=x", "postgresql://127.0.0.1:1/x"])
def test_server_that_cannot_be_reached_is_named(address: str) -> None:
    """At once, and without a word about passwords."""
    with pytest.raises(Unavailable, match="cannot reach the database x at"):
        taskq.connect(address)


@pytest.mark.thorough
def test_server_that_never_answers_is_given_up() -> None:
    """A port that accepts and says nothing does not hold the caller for ever."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        address = f"postgresql://user:secret@127.0.0.1:{port}/x?connect_timeout=1"
        with pytest.raises(Unavailable, match=f"127.0.0.1:{port}") as raised:
            taskq.connect(address)
    assert "secret" not in str(raised.value)


def test_wrong_address_is_a_usage_error() -> None:
    """It is not tried at all, and its password is not repeated."""
    with pytest.raises(UsageError, match="not a PostgreSQL address") as raised:
        taskq.connect("postgresql://user:secret@host/database?no_such_option=1")
    assert "secret" not in str(raised.value)


def test_database_that_does_not_exist_is_named(server_dsn: str) -> None:
    """A misspelt name."""
    with pytest.raises(Unavailable, match="the database typo at"):
        taskq.connect(make_conninfo(server_dsn, dbname="typo"))


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_database_that_cannot_keep_every_text_is_refused(server_dsn: str, encoding: str) -> None:
    """By the migration, which changes nothing, and says which database to make."""
    name = f"other_{secrets.token_hex(4)}"
    with psycopg.connect(server_dsn, autocommit=True) as admin:
        admin.execute(
            sql.SQL("create database {} encoding {} locale 'C' template template0").format(
                sql.Identifier(name), sql.Literal(encoding)
            )
        )
        taskq = CommandLine(make_conninfo(server_dsn, dbname=name))
        code, error = taskq.refused("db", "migrate")
        admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
    assert (code, f"is {encoding}" in error, "encoding 'UTF8'" in error) == (77, True, True), error
