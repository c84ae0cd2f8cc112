"""What a server must be before anything is installed there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from taskq.db.checks.findings import FAULT, FINE, ServerFinding
from taskq.db.rows import Row

OLDEST_SERVER: Final = 14
#: PostgreSQL's name of UTF-8.
ENCODING: Final = "UTF8"


def needed_first(server: Row) -> Iterator[ServerFinding]:
    """Judge a server before its schema is read. server: the row of `server.sql`."""
    yield from version([server])
    yield from encoding([server])


def version(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge the version of PostgreSQL."""
    (server,) = rows
    text = server["version_text"]
    if server["version"] < OLDEST_SERVER * 10_000:
        yield ServerFinding(
            FAULT, f"the server is PostgreSQL {text}", f"taskq needs {OLDEST_SERVER} or later"
        )
    else:
        yield ServerFinding(FINE, f"The server is PostgreSQL {text}.")


def encoding(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge the encoding of the database."""
    (server,) = rows
    found = server["encoding"]
    if found != ENCODING:
        yield ServerFinding(
            FAULT,
            f"the encoding of the database {server['database']} is {found}, which cannot keep "
            "every text",
            f"taskq needs {ENCODING}: `create database NAME encoding '{ENCODING}' template "
            "template0`",
        )
    else:
        yield ServerFinding(FINE, f"The encoding is {found}.")
