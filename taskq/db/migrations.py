"""Migration of a database to this release's schema, and inspection of its state.

The numbered files of `sql/migrations` change tables, each once and in order. The files of
`sql/functions`, and the rights on them, are all reinstalled whenever one differs from the installed
version; then the grants of all logins are renewed by their roles. All of it is one transaction.
"""

from __future__ import annotations

import hashlib
import importlib.resources
from dataclasses import dataclass
from functools import cache
from typing import Final

from taskq.db.connections import Database, Statements
from taskq.db.roles import ROLES, grant_anew
from taskq.errors import SchemaMissing, SchemaNewer, SchemaOlder, ServerUnsuitable

OLDEST_SERVER: Final = 14


@dataclass(frozen=True, slots=True)
class Schema:
    """State of a database (`version` 0: no schema) and what this release needs."""

    server: str
    version: int
    needed: int
    functions_current: bool

    @property
    def current(self) -> bool:
        """Whether this release can work with it."""
        return self.version == self.needed and self.functions_current


@cache
def _files(folder: str) -> tuple[tuple[str, str], ...]:
    """Return (name, text) of the SQL files of a folder, sorted by name."""
    entries = importlib.resources.files(f"taskq.sql.{folder}").iterdir()
    return tuple(
        sorted((entry.name, entry.read_text()) for entry in entries if entry.name.endswith(".sql"))
    )


def _rights() -> str:
    return importlib.resources.files("taskq.sql").joinpath("rights.sql").read_text()


@cache
def _digest() -> str:
    """Return a digest of the functions and rights, which are reinstalled when it changes."""
    again = (_files("functions"), _rights(), _files("roles"), ROLES)
    return hashlib.sha256(repr(again).encode()).hexdigest()


def inspect(database: Database) -> Schema:
    """Return the state of the schema; raise `ServerUnsuitable` if the server is too old."""
    with database.connection() as statements:
        return _inspect(statements)


def _inspect(statements: Statements) -> Schema:
    (server,) = statements.rows("server")
    if server["version"] < OLDEST_SERVER * 10_000:
        raise ServerUnsuitable(
            f"the server is PostgreSQL {server['version_text']}; "
            f"taskq needs {OLDEST_SERVER} or later"
        )
    installed = statements.row("installation") if server["installed"] else None
    return Schema(
        server=server["version_text"],
        version=installed["version"] if installed else 0,
        needed=len(_files("migrations")),
        functions_current=installed is not None and installed["functions"] == _digest(),
    )


def migrate(database: Database) -> tuple[Schema, Schema]:
    """Bring the schema up to date; return its states before and after.

    Atomic; a concurrent caller waits for the first. Raise `SchemaNewer` if a newer release has
    migrated the database.
    """
    with database.transaction() as statements:
        statements.execute("lock_installation")
        before = _inspect(statements)
        if before.version > before.needed:
            raise _newer(before)
        if before.current:
            return before, before
        for _, text in _files("migrations")[before.version :]:
            statements.script(text)
        for _, text in _files("functions"):
            statements.script(text)
        statements.execute("drop_stale_functions")
        statements.script(_rights())
        grant_anew(statements)
        statements.execute("installed", version=before.needed, functions=_digest())
        return before, _inspect(statements)


def require(database: Database) -> None:
    """Raise the `SchemaError` that says what to do, unless the schema is this release's."""
    schema = inspect(database)
    if schema.current:
        return
    if schema.version == 0:
        raise SchemaMissing(f"{database.server} has no taskq schema; run `taskq db migrate`")
    if schema.version > schema.needed:
        raise _newer(schema)
    what = (
        "functions are those of another release"
        if schema.version == schema.needed
        else f"schema has version {schema.version}, this release needs {schema.needed}"
    )
    raise SchemaOlder(f"{database.server}: its taskq {what}; run `taskq db migrate`")


def _newer(schema: Schema) -> SchemaNewer:
    return SchemaNewer(
        f"the schema has version {schema.version}, made by a newer release; this one knows "
        f"{schema.needed}: install the newer release"
    )
