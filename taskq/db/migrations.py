"""Migration of a database to this release's schema, and inspection of its state.

The numbered files of `sql/migrations` change tables, each once and in order; the database keeps
the digest of each. If a file of `sql/functions`, or the rights on them, differs from the installed
version, all are reinstalled; then the grants of all logins are renewed by their roles. All of it
is one transaction.

A released migration never changes, so a database with other digests comes from an unreleased
version. It cannot be upgraded, and no release works with it.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import operator
from dataclasses import dataclass
from functools import cache
from typing import Final

from taskq.db.catalogue import ROLES, definition
from taskq.db.connections import Database, Statements
from taskq.db.roles import grant_anew
from taskq.db.sql_files import files_of
from taskq.db.storage_rights import close_places
from taskq.model.errors import (
    MigrationFailed,
    SchemaMissing,
    SchemaNewer,
    SchemaOlder,
    SchemaUnreleased,
    ServerUnsuitable,
    UsageError,
)

OLDEST_SERVER: Final = 14
#: PostgreSQL's name of UTF-8.
ENCODING: Final = "UTF8"
#: Seconds for which a migration waits for a table in use; later users wait behind it.
LOCK_TIMEOUT_S: Final = 5.0


#: PostgreSQL's code for a statement that the login may not run.
_NO_RIGHT: Final = "42501"


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
def _files(folder: str) -> tuple[tuple[str, str], ...]:
    """Return (name, text) of the SQL files of a folder of `sql`, sorted by name."""
    return tuple((name, file.read_text("utf-8")) for name, file in files_of(folder).items())


def _functions() -> tuple[tuple[str, str], ...]:
    """Return (name, statement) of each function, sorted by name."""
    return tuple((name, definition(name, text)) for name, text in _files("functions"))


def _rights() -> str:
    return importlib.resources.files("taskq.sql").joinpath("rights.sql").read_text()


@cache
def _migrations() -> list[str]:
    """Return the digest of each migration, in order."""
    return [hashlib.sha256(text.encode()).hexdigest() for _, text in _files("migrations")]


@cache
def _digest() -> str:
    """Return a digest of the functions and rights, which are reinstalled when it changes."""
    again = (_functions(), _rights(), _files("roles"), ROLES)
    return hashlib.sha256(repr(again).encode()).hexdigest()


def inspect(database: Database) -> Schema:
    """Return the state of the schema.

    Raise `ServerUnsuitable` if the server is too old, or the database has another encoding.
    """
    with database.connection() as statements:
        return _inspect(statements)


def _inspect(statements: Statements) -> Schema:
    (server,) = statements.rows("server")
    if server["version"] < OLDEST_SERVER * 10_000:
        raise ServerUnsuitable(
            f"the server is PostgreSQL {server['version_text']}; "
            f"taskq needs {OLDEST_SERVER} or later"
        )
    if server["encoding"] != ENCODING:
        raise ServerUnsuitable(
            f"the encoding of the database {server['database']} is {server['encoding']}, which "
            f"cannot keep every text; taskq needs {ENCODING}: `create database NAME encoding "
            f"'{ENCODING}' template template0`"
        )
    installed = statements.row("installation") if server["installed"] else None
    made_by = (installed["migrations"] or []) if installed else []
    needed = _migrations()
    return Schema(
        server=server["version_text"],
        version=len(made_by),
        needed=len(needed),
        functions_current=installed is not None and installed["functions"] == _digest(),
        released=installed is None
        or (made_by != [] and all(map(operator.eq, made_by, needed))),  # as far as both go
    )


def migrate(database: Database, *, lock_timeout_s: float = LOCK_TIMEOUT_S) -> tuple[Schema, Schema]:
    """Bring the schema up to date; return its states before and after.

    Atomic; a concurrent caller waits for the first. Raise `SchemaNewer` if a newer release has
    migrated the database, `SchemaUnreleased` if an unreleased version has made it, `Unavailable` if
    another transaction keeps a table for longer than `lock_timeout_s`, `MigrationFailed` if the
    server refuses a statement, `ServerUnsuitable` if the login may not do this. An error changes
    nothing.
    """
    try:
        states = _migrate(database, lock_timeout_s)
        database.note_installed()
    except (UsageError, ServerUnsuitable) as error:
        # None if the server is too old and got no statement.
        if getattr(error.__cause__, "sqlstate", None) in (None, _NO_RIGHT):
            raise
        raise MigrationFailed(
            f"{database.server}: the migration has failed and changed nothing: {error}"
        ) from error
    return states


def _migrate(database: Database, lock_timeout_s: float) -> tuple[Schema, Schema]:
    with database.transaction() as statements:
        statements.execute("lock_installation")
        before = _inspect(statements)
        _refuse_unknown(database, before)
        if before.current:
            return before, before
        statements.execute("begin_migration", lock_timeout=f"{round(lock_timeout_s * 1000)}ms")
        for _, text in _files("migrations")[before.version :]:
            statements.script(text)
        for name, text in _functions():
            statements.replace_function(name, text)
        statements.execute("drop_stale_functions")
        statements.script(_rights())
        grant_anew(statements)
        close_places(statements)
        statements.execute("installed", migrations=_migrations(), functions=_digest())
        return before, _inspect(statements)


def require(database: Database) -> None:
    """Raise a `SchemaError` with advice unless the schema is this release's."""
    schema = inspect(database)
    if schema.current:
        database.note_installed()
        return
    _refuse_unknown(database, schema)
    if schema.version == 0:
        raise SchemaMissing(f"{database.server} has no taskq schema; run `taskq db migrate`")
    what = (
        "functions are those of another release"
        if schema.version == schema.needed
        else f"schema has version {schema.version}, this release needs {schema.needed}"
    )
    raise SchemaOlder(f"{database.server}: its taskq {what}; run `taskq db migrate`")


def _refuse_unknown(database: Database, schema: Schema) -> None:
    """Raise the `SchemaError` for a schema that this release can neither use nor upgrade."""
    if not schema.released:
        raise SchemaUnreleased(
            f"{database.server}: an unreleased version of taskq has made its schema, which cannot "
            "be upgraded; export the results with that version, then start with a new database or "
            "another TASKQ_HOME"
        )
    if schema.version > schema.needed:
        raise SchemaNewer(
            f"the schema has version {schema.version}, made by a newer release; this one knows "
            f"{schema.needed}: install the newer release"
        )
