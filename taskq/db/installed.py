"""What of this release a database has: its tables, functions and rights, by digests of the files.

The numbered files of `sql/migrations` change tables, each once and in order; the database keeps
the digest of each, and one of all functions and rights.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import operator
from dataclasses import dataclass
from functools import cache

from taskq.db.access import Queries
from taskq.db.catalogue import ROLES, definition
from taskq.db.rows import Row
from taskq.db.sql_files import files_of


@dataclass(frozen=True, slots=True)
class Schema:
    """State of a database (`version` 0: no schema) and what this release needs.

    released: False if an unreleased version of taskq has made the schema.
    """

    server: str
    version: int
    needed: int
    functions_current: bool
    released: bool

    @property
    def current(self) -> bool:
        """Whether this release can work with it."""
        return self.released and self.version == self.needed and self.functions_current


@cache
def texts(folder: str) -> tuple[tuple[str, str], ...]:
    """Return (name, text) of the SQL files of a folder of `sql`, sorted by name."""
    return tuple((name, file.read_text("utf-8")) for name, file in files_of(folder).items())


def functions() -> tuple[tuple[str, str], ...]:
    """Return (name, statement) of each function, sorted by name."""
    return tuple((name, definition(name, text)) for name, text in texts("functions"))


def rights() -> str:
    """Return the statements that take from everybody what PostgreSQL gives to everybody."""
    return importlib.resources.files("taskq.sql").joinpath("rights.sql").read_text()


@cache
def migration_digests() -> list[str]:
    """Return the digest of each migration, in order."""
    return [hashlib.sha256(text.encode()).hexdigest() for _, text in texts("migrations")]


@cache
def digest() -> str:
    """Return a digest of the functions and rights, which are reinstalled when it changes."""
    again = (functions(), rights(), texts("roles"), ROLES)
    return hashlib.sha256(repr(again).encode()).hexdigest()


def read_schema(statements: Queries, server: Row) -> Schema:
    """Return the state of the schema. server: the row of `server.sql`."""
    installed = statements.row("installation") if server["installed"] else None
    made_by = (installed["migrations"] or []) if installed else []
    needed = migration_digests()
    return Schema(
        server=server["version_text"],
        version=len(made_by),
        needed=len(needed),
        functions_current=installed is not None and installed["functions"] == digest(),
        released=installed is None
        or (made_by != [] and all(map(operator.eq, made_by, needed))),  # as far as both go
    )
