"""Dumps of a queue: which roles they need, and how those that do not fit are refused."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from taskq import Client
from taskq.db import roles
from taskq.embedded.installation import locate
from taskq.model.errors import SchemaNewer, SchemaOlder
from tests.fixtures.databases import fresh_database
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, value
from tests.helpers.server_checks import only

RESTORE = ("pg_restore", "--single-transaction", "--exit-on-error")


def run(program: str, *words: str) -> str:
    """Run a program of PostgreSQL; return what it complains of."""
    done = subprocess.run(
        [locate().bin_dir / program, *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode == 0) == (done.stderr == ""), done
    return done.stderr


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Give where the dump goes."""
    return tmp_path / "queue.dump"


def save(dsn: str, dump: Path) -> None:
    """Dump as docs/restoring.md does."""
    said = run("pg_dump", "--format=custom", "--schema=taskq", f"--file={dump}", dsn)
    assert said == ""


@pytest.fixture
def other_dsn(server_dsn: str) -> Iterator[str]:
    """Give the address of another database, which is empty."""
    with fresh_database(server_dsn, "template0") as address:
        yield address


@pytest.fixture
def logins(postgres: Postgres) -> dict[str, str]:
    """Give names of logins that need quotes, of a group with a member, and of strangers."""
    mark = secrets.token_hex(4)
    kinds = ("ada", "eve", "group", "granted", "stranger")
    names = {kind: f'{kind} "of" {mark}' for kind in kinds}
    for kind, name in names.items():
        login = "" if kind == "group" else "login connection limit 5"
        postgres.execute(f"create role {quoted(name)} {login}".encode())
    postgres.execute(f"grant {quoted(names['group'])} to {quoted(names['eve'])}".encode())
    return names


def quoted(name: str) -> str:
    """Return a name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def test_roles_of_a_queue_are_printed_for_another_server(
    queue: Client, postgres: Postgres, logins: dict[str, str]
) -> None:
    """Logins with roles, members of groups, all that have grants; psql makes what is missing."""
    roles.grant(queue.database, "operator", logins["ada"])
    roles.grant(queue.database, "reader", logins["group"])
    postgres.execute(f"grant select on taskq.spec to {quoted(logins['granted'])}".encode())
    said = CommandLine(queue.database.dsn).out("db", "roles", "--sql")
    for kind, name in logins.items():
        statement = f"create role {quoted(name)}"
        assert (statement in said) == (kind != "stranger"), kind
    assert f"grant {quoted(logins['group'])} to {quoted(logins['eve'])};" in said
    postgres.execute(f"drop role {quoted(logins['eve'])}".encode())
    assert value(postgres, "select count(*) from pg_roles where rolname = %s", logins["eve"]) == 0
    done = subprocess.run(
        [locate().bin_dir / "psql", "--quiet", "--set=ON_ERROR_STOP=1", queue.database.dsn],
        input=said,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    limit = "select rolconnlimit from pg_roles where rolname = %s and rolcanlogin"
    assert value(postgres, limit, logins["ada"]) == 5


def test_dropped_login_is_forgotten_by_the_next_grant(
    queue: Client, postgres: Postgres, logins: dict[str, str]
) -> None:
    """In a dump it is a number, which may be the number of somebody else on the new server."""
    gone, other = logins["ada"], logins["eve"]
    roles.grant(queue.database, "operator", gone)
    postgres.execute(f"drop owned by {quoted(gone)}".encode())
    postgres.execute(f"drop role {quoted(gone)}".encode())
    assert "1 login with roles here" in only(queue.database, "rights").text
    roles.grant(queue.database, "reader", other)
    rows = postgres.execute("select login::text, role from taskq.login_role").fetchall()
    assert [tuple(row.values()) for row in rows] == [(quoted(other), "reader")]


def test_restore_over_a_queue_changes_nothing(queue: Client, dump: Path) -> None:
    """As docs/restoring.md has it: the first error ends it, and takes back what it did."""
    queue.create_campaign("/c").seed([{"n": number} for number in range(50)])
    save(queue.database.dsn, dump)
    said = run(*RESTORE, f"--dbname={queue.database.dsn}", str(dump))
    assert 'schema "taskq" already exists' in said
    assert list(queue.audit("/")) == []
    assert queue.campaign("/c").status().waiting == 50


def test_restore_without_its_roles_leaves_the_database_empty(
    queue: Client, postgres: Postgres, logins: dict[str, str], dump: Path, other_dsn: str
) -> None:
    """The missing login is named."""
    roles.grant(queue.database, "operator", logins["ada"])
    save(queue.database.dsn, dump)
    postgres.execute(f"drop owned by {quoted(logins['ada'])}".encode())
    postgres.execute(f"drop role {quoted(logins['ada'])}".encode())
    said = run(*RESTORE, f"--dbname={other_dsn}", str(dump))
    assert "does not exist" in said
    with psycopg.connect(other_dsn) as other:
        assert other.execute("select to_regnamespace('taskq')").fetchone() == (None,)


@pytest.mark.parametrize(
    ("release", "refusal", "says"),
    [
        ("update taskq.installation set functions = 'earlier'", SchemaOlder, "taskq db migrate"),
        (
            "update taskq.installation set migrations = migrations || 'later'::text",
            SchemaNewer,
            "newer release",
        ),
    ],
)
def test_dump_of_another_release_is_named(
    queue: Client,
    postgres: Postgres,
    dump: Path,
    other_dsn: str,
    release: str,
    refusal: type[Exception],
    says: str,
) -> None:
    """It restores; then commands say what to do, and a migration mends an earlier one."""
    queue.create_campaign("/c").seed([{"n": 1}])
    postgres.execute(release.encode())
    save(queue.database.dsn, dump)
    assert run(*RESTORE, f"--dbname={other_dsn}", str(dump)) == ""
    taskq = CommandLine(other_dsn)
    refused = taskq("status", "/")
    assert (refused.exit_code, says in refused.stderr) == (78, True), refused.stderr
    migrated = taskq("db", "migrate")
    assert (migrated.exit_code == 0) == (refusal is SchemaOlder)
    if migrated.exit_code == 0:
        assert "no violations" in taskq.out("audit", "/")


def test_one_campaign_comes_back_from_a_dump_by_an_archive(
    queue: Client, dump: Path, other_dsn: str, tmp_path: Path
) -> None:
    """In the place of a restore of some tables: the whole dump elsewhere, then that campaign."""
    queue.create_campaign("/c").seed([{"n": number} for number in range(30)])
    queue.create_campaign("/d").seed([{"n": number} for number in range(5)])
    save(queue.database.dsn, dump)
    here, there = CommandLine(queue.database.dsn), CommandLine(other_dsn)
    here.out("campaign", "rm", "/c", "--yes")
    assert run(*RESTORE, f"--dbname={other_dsn}", str(dump)) == ""
    there.out("cancel", "/c", "--yes")
    there.out("campaign", "archive", "/c", "--to", str(tmp_path / "c"), "--yes")
    here.out("campaign", "restore", str(tmp_path / "c"))
    assert queue.campaign("/c").status().cancelled == 30
    assert list(queue.audit("/")) == []
