"""Migration of a database to this release's schema, and inspection of its state.

The numbered files of `sql/migrations` change tables, each once and in order; the database keeps
the digest of each. If a file of `sql/functions`, or the rights on them, differs from the installed
version, all are reinstalled; then the grants of all logins are renewed by their roles. All of it
is one transaction.

A released migration never changes, so a database with other digests comes from an unreleased
version. It cannot be upgraded, and no release works with it.
"""

from __future__ import annotations

from typing import Final

from taskq.db.checks.findings import FAULT
from taskq.db.checks.needed import needed_first
from taskq.db.connections import Database, Statements
from taskq.db.installed import (
    Schema,
    digest,
    functions,
    migration_digests,
    read_schema,
    rights,
    texts,
)
from taskq.db.roles import grant_anew
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

#: Seconds for which a migration waits for a table in use; later users wait behind it.
LOCK_TIMEOUT_S: Final = 5.0


#: PostgreSQL's code for a statement that the login may not run.
_NO_RIGHT: Final = "42501"


def inspect(database: Database) -> Schema:
    """Return the state of the schema.

    Raise `ServerUnsuitable` if the server is too old, or the database has another encoding.
    """
    with database.connection() as statements:
        return _inspect(statements)


def _inspect(statements: Statements) -> Schema:
    (server,) = statements.rows("server")
    for finding in needed_first(server):
        if finding.state == FAULT:
            raise ServerUnsuitable(f"{finding.text}; {finding.remedy}")
    return read_schema(statements, server)


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
        for _, text in texts("migrations")[before.version :]:
            statements.script(text)
        for name, text in functions():
            statements.replace_function(name, text)
        statements.execute("drop_stale_functions")
        statements.script(rights())
        grant_anew(statements)
        close_places(statements)
        statements.execute("installed", migrations=migration_digests(), functions=digest())
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
