"""`taskq db` sets up the schema, grants roles, cleans; `taskq audit` checks the guarantees."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Final

import click

from taskq.db import migrations, roles
from taskq.db.audit import Violation
from taskq.db.catalogue import ROLES
from taskq.db.checks.every import Checked, checked, faults_of_server
from taskq.db.checks.findings import FAULT, FINE, UNSEEN
from taskq.db.installed import Schema
from taskq.db.storage_rights import open_places
from taskq.model.columns import Column
from taskq.model.words import counted
from taskq.upkeep.keeper import Keeper
from taskq_cli.display.output import (
    TABLE_ROWS,
    Record,
    as_record,
    facts,
    paragraph,
    write_record,
    write_records,
)
from taskq_cli.display.progress import ShowChunk, chunk_display
from taskq_cli.early_exits import Violated, resumable
from taskq_cli.invocation import Invocation, warn
from taskq_cli.options.shared import (
    dry_run_option,
    limit_option,
    path_argument,
    shared_options,
    together,
)
from taskq_cli.options.values import time_option

#: Of one call, each of which reads all attempts.
_CLEAN_AT_ONCE: Final = 100_000

_role_and_login: Final = together(
    click.argument("role", type=click.Choice(list(ROLES))), click.argument("login")
)

_REDRAW_S: Final = 0.1
_COLUMNS: Final[list[Column[Record]]] = [
    Column("campaign"),
    Column("task", lambda violation: violation["task_id"]),
    Column("key", lambda violation: violation["rows"].get("key")),
    Column("check"),
    Column("what", lambda violation: violation["text"], gives_way=True),
]


_CHECKS: Final[list[Column[Checked]]] = [
    Column("check"),
    Column("state", is_bad=lambda it: it.state == FAULT),
    Column("finding", lambda it: it.text, gives_way=True),
]


@click.group()
def db() -> None:
    """Set up or upgrade the schema, and grant or revoke roles.

    Example:
      taskq db status
    """


@db.command()
@shared_options
def migrate(invocation: Invocation) -> None:
    """Install the schema, or upgrade it to this release.

    Atomic: the whole upgrade commits, or nothing changes. It looks at the server before, and warns
    of faults that `taskq db check` names too.

    Example:
      taskq db migrate --dsn postgresql://me@db.example.org/queue
    """
    with invocation.database() as database:
        faults = faults_of_server(database)
        before, after = migrations.migrate(database)
        changed = before != after
        if before.version != after.version:
            state = f"has version {after.version} now, before {before.version or 'none'}"
        else:
            state = f"{'had other functions, now is' if changed else 'is'} current"
        text = f"{database.server}: the schema {state}."
    for fault in faults:
        warn(f"{fault.text.removesuffix('.')}; {fault.remedy}")
    record = as_record(after) | {"changed": changed, "version_before": before.version}
    write_record(invocation.output, record, text)


@db.command()
@shared_options
def status(invocation: Invocation) -> None:
    """Show the schema's version, and where logins store without limit.

    The exit code is 78 if this release needs another version.

    Example:
      taskq db status --output json
    """
    with invocation.database() as database:
        schema = migrations.inspect(database)
        places = open_places(database)
        record = as_record(schema) | {"current": schema.current, "open_to_all": places}
        text = _as_text(database.server, schema)
        if places:
            text += "\nEvery login can store without limit in the following; what closes it:"
            text += "".join(f"\n  {place}: {remedy}" for place, remedy in places.items())
        write_record(invocation.output, record, text)
        migrations.require(database)


@db.command()
@shared_options
def check(invocation: Invocation) -> None:
    """Check that the server is as a queue needs it.

    Version, encoding and settings; functions, rights, indexes and sequences as they are; sizes;
    what holds back VACUUM or the log; memory; the keeper; clocks; tokens and passwords that end
    soon. Each check has a finding, in one sentence, and its remedy. A finding is `fine`, `advice`,
    a `fault` that loses work or stops the queue, or `unseen` if your login may not see that. It
    reads catalogs and writes nothing. The exit code is 1 if there is a fault.

    Example:
      taskq db check
      taskq db check --output json
    """
    found: list[Checked] = []
    with invocation.database() as database:
        if invocation.address() is None and migrations.inspect(database).current:
            # As each command does for an embedded queue, of which nobody else may take care.
            with closing(Keeper(database)) as keeper:
                keeper.round()
        found += checked(database)
    write_records(invocation.output, found, _CHECKS, limit=len(found))
    if invocation.output == "table":
        sys.stdout.writelines(
            paragraph(f"{it.check}: {it.text}", mark="! ") + paragraph(it.remedy, mark="  ")
            for it in found
            if it.state != FINE and it.remedy
        )
    sys.stdout.flush()
    number = Counter(it.state for it in found)
    if number[FAULT]:
        raise Violated(f"{counted(number[FAULT], 'fault')} found.")
    if number[UNSEEN] and invocation.output == "table":
        click.echo(f"{counted(number[UNSEEN], 'check')} could not look.", err=True)


@db.command()
@time_option(
    "--age",
    "age_s",
    least=3_600,
    default=86_400,
    text="Keep files stored and sessions ended within this time: a report may still need them.",
)
@dry_run_option
@shared_options
def clean(invocation: Invocation, *, age_s: float, dry_run: bool) -> None:
    """Remove stored files and old sessions that are not in use.

    Files: inputs and large results of deleted campaigns, replaced inputs and interrupted uploads,
    but only in the database, not in a folder or other storage. Sessions: those without any
    attempt.

    Example:
      taskq db clean
    """
    removed = {"blobs": 0, "sessions": 0}
    with invocation.client() as client, resumable():
        for kind in removed:
            remove = partial(client.database.value, f"remove_unused_{kind}", age_s=age_s)
            if dry_run:
                removed[kind] = remove(limit=None, dry_run=True)
                continue
            while chunk := remove(limit=_CLEAN_AT_ONCE, dry_run=False):
                removed[kind] += chunk
    text = " and ".join(counted(removed[f"{kind}s"], kind) for kind in ("blob", "session"))
    end = "would be removed; nothing was changed" if dry_run else "removed"
    write_record(invocation.output, removed | {"dry_run": dry_run}, f"{text} {end}.")


@db.command()
@_role_and_login
@shared_options
def grant(invocation: Invocation, role: str, login: str) -> None:
    """Grant a login of the server a role in this database.

    Roles add up. `gateway` serves agents; `agent` is for direct agents; `submitter` creates
    campaigns and adds tasks, and `pickler` also sends functions by value; `operator` controls
    campaigns and creates tokens; the last three include `reader`. A role granted to a group applies
    to its members. Only the owner of the schema, who may do everything, can grant roles.

    Example:
      taskq db grant submitter ada
    """
    with invocation.client() as client:
        changed = roles.grant(client.database, role, login)
        who = f"Each member of {login}" if roles.is_group(client.database, login) else login
    text = f"{who} {'now has' if changed else 'already had'} the role {role}."
    write_record(invocation.output, {"login": login, "role": role, "changed": changed}, text)


@db.command()
@_role_and_login
@dry_run_option
@shared_options
def revoke(invocation: Invocation, *, role: str, login: str, dry_run: bool) -> None:
    """Revoke a role of a login; its other roles stay.

    It takes effect with the next statement, also on open connections. Revoke all roles of a login
    before you drop it from the server.

    Example:
      taskq db revoke submitter ada
    """
    record = {"login": login, "role": role, "dry_run": dry_run}
    with invocation.client() as client:
        if dry_run:
            has = role in roles.granted(client.database).get(login, ())
            would = "would lose" if has else "does not have"
            write_record(invocation.output, record, f"{login} {would} the role {role}.")
            return
        changed = roles.revoke(client.database, role, login)
    text = f"{login} {'no longer has' if changed else 'did not have'} the role {role}."
    write_record(invocation.output, record | {"changed": changed}, text)


@db.command("roles")
@click.option(
    "--sql",
    "as_sql",
    is_flag=True,
    help="Print statements for psql that make these roles on another server.",
)
@shared_options
def roles_(invocation: Invocation, *, as_sql: bool) -> None:
    """List the logins that have roles.

    --sql is for a restore on another server: it also has the owner of the schema and the members of
    groups, and no passwords.

    Examples:
      taskq db roles
      taskq db roles --sql > roles.sql
    """
    with invocation.client() as client:
        if as_sql:
            for statement in roles.as_sql(client.database):
                click.echo(statement)
            return
        found = roles.granted(client.database)
    records = [{"login": login, "roles": its} for login, its in found.items()]
    write_records(invocation.output, records, [Column("login"), Column("roles")])


def _as_text(server: str, schema: Schema) -> str:
    return facts(
        {
            "database": server,
            "server": f"PostgreSQL {schema.server}",
            "schema": "of an unreleased version"
            if not schema.released
            else f"version {schema.version}"
            if schema.version
            else "none",
            "needed": f"version {schema.needed}",
            "functions": "current" if schema.functions_current else "of another release",
        }
    )


@click.command()
@path_argument(default="/")
@limit_option
@shared_options
def audit(invocation: Invocation, *, path: str, limit: int | None) -> None:
    """Check the queue's guarantees about tasks, while the queue is at work.

    For PATH and all below it: no task has two live leases, exactly one outcome of each final task
    is accepted, attempts are numbered without gaps, nothing happens after the end, and counts
    equal a recount. Lists violations, in JSON with their rows; the exit code is then 1. It reads
    leases, so only the owner of the schema may run it.

    Example:
      taskq audit /demo
    """
    found: Counter[str] = Counter()
    with invocation.client() as client:
        nodes = client.campaign(path).tree()
        tasks = sum(node.total for node in nodes)
        if invocation.output == "table":
            with chunk_display("checking") as show:
                records = _counted(client.audit(path, _looking(tasks, show)), found)
                shown = list(islice(records, limit or TABLE_ROWS))
                for _ in records:  # count those beyond the limit
                    pass
            if shown:
                write_records("table", shown, _COLUMNS, limit=len(shown))
            else:
                where = counted(len(nodes), "campaign")
                click.echo(f"{counted(tasks, 'task')} in {where}: no violations.")
        else:
            records = _counted(client.audit(path), found)
            write_records(invocation.output, records, _COLUMNS, limit=limit)
            for _ in records:  # count those beyond the limit
                pass
    if violations := found.total():
        sys.stdout.flush()  # report an error of the output before the verdict
        hint = "; --output json shows the rows" if invocation.output == "table" else ""
        raise Violated(f"{counted(violations, 'violation')} found{hint}.")


def _counted(violations: Iterator[Violation], found: Counter[str]) -> Iterator[Record]:
    """Yield violations as records; count them by check."""
    for violation in violations:
        found[violation.check] += 1
        yield as_record(violation)


def _looking(tasks: int, show: ShowChunk) -> Callable[[str, int], None]:
    """Return a function that shows how many tasks were checked, 10 times a second at most."""
    shown_at, done = 0.0, 0

    def look(path: str, checked: int) -> None:
        nonlocal shown_at, done
        done += checked
        if time.monotonic() >= shown_at + _REDRAW_S:
            shown_at = time.monotonic()
            show(done, tasks, path)

    return look
