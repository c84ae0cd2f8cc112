"""The embedded server is reached whatever libpq's variables say, and nothing else is."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg import pq

from taskq.db import migrations
from taskq.db.connections import Database
from taskq.db.translation import EMBEDDED
from taskq.embedded import Server
from tests.helpers.command_line import CommandLine

#: Values with which a connection would fail, or lead elsewhere, by variable.
HOSTILE = {
    "PGHOST": "127.0.0.9",
    "PGHOSTADDR": "127.0.0.9",
    "PGPORT": "1",
    "PGDATABASE": "typo",
    "PGUSER": "somebody",
    "PGPASSWORD": "secret",
    "PGPASSFILE": "/nowhere",
    "PGSERVICE": "elsewhere",
    "PGOPTIONS": "-c no_such_setting=1",
    "PGAPPNAME": "other",
    "PGCLIENTENCODING": "no-such-encoding",
    "PGDATESTYLE": "no-such-style",
    "PGTZ": "No/Such_Zone",
    "PGGEQO": "perhaps",
    "PGCONNECT_TIMEOUT": "soon",
    "PGREQUIREAUTH": "scram-sha-256",
    "PGCHANNELBINDING": "require",
    "PGREQUIREPEER": "nobody-at-all",
    "PGSSLMODE": "verify-full",
    "PGSSLNEGOTIATION": "direct",
    "PGSSLCERT": "/nowhere",
    "PGSSLKEY": "/nowhere",
    "PGSSLROOTCERT": "/nowhere",
    "PGSSLCRL": "/nowhere",
    "PGSSLCERTMODE": "require",
    "PGSSLMINPROTOCOLVERSION": "TLSv1.3",
    "PGSSLMAXPROTOCOLVERSION": "TLSv1",
    "PGMINPROTOCOLVERSION": "9.9",
    "PGMAXPROTOCOLVERSION": "2.0",
    "PGGSSENCMODE": "require",
    "PGTARGETSESSIONATTRS": "standby",
    "PGLOADBALANCEHOSTS": "sometimes",
}


#: All that this libpq knows, and those that have no parameter.
NAMES = sorted(
    {*(option.envvar.decode() for option in pq.Conninfo.get_defaults() if option.envvar), *HOSTILE}
)
HARMFUL = ("PGHOSTADDR", "PGSERVICE", "PGOPTIONS", "PGREQUIREPEER", "PGTZ")


def connect_in_each_way(dsn: str) -> None:
    """Open connections of a pool and others, for threads and for asyncio."""
    with closing(Database(dsn, server=EMBEDDED).open()) as database:
        assert database.value("server")
        line = database.dedicated_connection()
        with line.connected() as statements:
            assert statements.value("server")
        line.close()

        async def ask() -> None:
            there = database.dedicated_async_connection()
            assert await there.rows("server")
            await there.close()

        asyncio.run(ask())


@pytest.fixture
def dsn(server: Server) -> str:
    """Give the address of the shared server, with the schema."""
    dsn = server.up().dsn
    with closing(Database(dsn).open()) as database:
        migrations.migrate(database)
    return dsn


@pytest.mark.parametrize("name", HARMFUL)
def test_variable_harms_other_connections(
    dsn: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """So the tests here show something."""
    monkeypatch.setenv(name, HOSTILE[name])
    with pytest.raises(psycopg.Error):
        psycopg.connect(dsn, connect_timeout=3)


@pytest.mark.parametrize("name", NAMES)
def test_no_variable_of_libpq_matters(dsn: str, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """And it is as it was afterwards."""
    monkeypatch.setenv(name, HOSTILE.get(name, "hostile"))
    before = dict(os.environ)
    connect_in_each_way(dsn)
    assert dict(os.environ) == before


@pytest.mark.thorough
def test_commands_store_where_they_say(place: Path) -> None:
    """With all variables at once, and another server where they lead."""
    hostile = {**HOSTILE, "PGHOSTADDR": "127.0.0.10"}  # nobody else goes there
    taskq = CommandLine("", address={"TASKQ_HOME": str(place / "home"), **hostile})
    taskq.environment.pop("TASKQ_DSN", None)
    with socket.create_server((hostile["PGHOSTADDR"], 5432)) as elsewhere:
        elsewhere.settimeout(0.0)
        (place / "tasks.jsonl").write_text('{"n": 1}\n')
        for words in (
            ("up",),
            ("campaign", "create", "/c", "--", "true"),
            ("seed", "/c", place / "tasks.jsonl"),
        ):
            with taskq.process(*words) as process:
                said = process.communicate(timeout=120)
            assert process.returncode == 0, said
        with pytest.raises(BlockingIOError):
            elsewhere.accept()


def test_host_of_an_address_is_not_replaced(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PGHOSTADDR would lead any connection to another server."""
    monkeypatch.setenv("PGHOSTADDR", HOSTILE["PGHOSTADDR"])
    with closing(Database(dsn).open()) as database:
        assert database.value("server")
