"""`taskq db`: the schema in the database."""

from __future__ import annotations

import click

from taskq import migrations
from taskq.migrations import Schema
from taskq_cli.output import as_record, facts, write_record
from taskq_cli.shared import Invocation, shared_options


@click.group()
def db() -> None:
    """Set up or upgrade the schema in the database.

    Example:
      taskq db status
    """


@db.command()
@shared_options
def migrate(invocation: Invocation) -> None:
    """Bring the schema to this release's; all of it happens, or nothing.

    Example:
      taskq db migrate --dsn postgresql://me@db.example.org/queue
    """
    with invocation.database() as database:
        before, after = migrations.migrate(database)
        changed = before != after
        if before.version != after.version:
            said = f"has version {after.version} now, before {before.version or 'none'}"
        else:
            said = f"{'had other functions, now is' if changed else 'is'} current"
        text = f"{database.server}: the schema {said}."
    record = as_record(after) | {"changed": changed, "version_before": before.version}
    write_record(invocation.output, record, text)


@db.command()
@shared_options
def status(invocation: Invocation) -> None:
    """Say which schema the database has.

    The exit code is 78 if this release cannot work with it.

    Example:
      taskq db status --output json
    """
    with invocation.database() as database:
        schema = migrations.inspect(database)
        record = as_record(schema) | {"current": schema.current}
        write_record(invocation.output, record, _described(database.server, schema))
        migrations.require(database)


def _described(server: str, schema: Schema) -> str:
    return facts(
        {
            "database": server,
            "server": f"PostgreSQL {schema.server}",
            "schema": f"version {schema.version}" if schema.version else "none",
            "needed": f"version {schema.needed}",
            "functions": "current" if schema.functions_current else "of another release",
        }
    )
