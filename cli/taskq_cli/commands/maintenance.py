"""`taskq maintenance`: announce that hosts, sites or campaigns are repaired."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import click

from taskq.diagnosis.maintenance import MaintenanceWindow
from taskq.model.columns import Column
from taskq_cli.display.output import as_record, write_record, write_records
from taskq_cli.display.text import one_line
from taskq_cli.invocation import Invocation
from taskq_cli.options.shared import limit_option, path_argument, reading_options, shared_options
from taskq_cli.options.values import until as parse_until
from taskq_cli.program import ListGroup

_COLUMNS: Final[tuple[Column[MaintenanceWindow], ...]] = (
    Column("id", lambda it: it.maintenance_id),
    Column("state"),
    Column("what", gives_way=True),
    Column("begins"),
    Column("ends"),
    Column("by"),
    Column("why", gives_way=True),
)


@click.group(cls=ListGroup)
def maintenance() -> None:
    """Announce that hosts, sites or campaigns are repaired.

    While a window lasts, no message goes out about what is expected in it, and nothing there is
    judged by time. `list` is the default sub-command.

    Example:
      taskq maintenance list
    """


@maintenance.command("list")
@path_argument(default="/", metavar="[PATH]")
@limit_option
@reading_options
def list_(invocation: Invocation, *, path: str, limit: int | None) -> None:
    """List the windows: those of PATH, of campaigns above it and below it.

    Those that last, that are to come, and that have ended within three days.

    Example:
      taskq maintenance list
    """
    with invocation.reader() as client:
        found = client.maintenance.list(path)
    write_records(
        invocation.output,
        found,
        _COLUMNS,
        limit=limit,
        record=lambda it: as_record(it) | {"state": it.state, "what": it.what},
    )


@maintenance.command()
@path_argument(default="/", metavar="[PATH]")
@click.option(
    "--site", "sites", multiple=True, metavar="SITE", help="Only at this site (repeatable)."
)
@click.option(
    "--host", "hosts", multiple=True, metavar="HOST", help="Only at this host (repeatable)."
)
@click.option(
    "--begin",
    "begins",
    type=parse_until,
    metavar="TIME|DURATION",
    help="When it begins: a time in UTC, or a duration from now on. [default: now]",
)
@click.option(
    "--until",
    type=parse_until,
    required=True,
    metavar="TIME|DURATION",
    help="When it ends: a time in UTC, or a duration from now on, such as 90m or 12h.",
)
@click.option("--why", required=True, metavar="TEXT", help="What is done, which all views show.")
@shared_options
def start(
    invocation: Invocation,
    *,
    path: str,
    sites: tuple[str, ...],
    hosts: tuple[str, ...],
    begins: datetime | timedelta | None,
    until: datetime | timedelta,
    why: str,
) -> None:
    """Announce a maintenance window.

    It is for the campaign PATH and all below it, and ends by itself, after a week at most. No
    message goes out about capacity that is gone, silent or leaving agents, tasks that wait for
    them, and hosts or sites that fail or are slow; no attempt there is overdue, no host slow, and
    failures on its hosts pause no campaign. Lost and failed tasks, wrong results and a database
    that was set back are reported as always. It orders no agent: `taskq agent drain` and `taskq
    host ban` do.

    Example:
      taskq maintenance start --site aare --until 6h --why "the network is replaced"
    """
    with invocation.client() as client:
        window = client.maintenance.start(
            path=path, sites=sites, hosts=hosts, begins=begins, until=until, why=why
        )
    record = {"maintenance_id": window, "path": path, "sites": [*sites], "hosts": [*hosts]}
    text = f"Maintenance {window} is announced; `taskq maintenance end {window}` ends it."
    write_record(invocation.output, record, one_line(text))


@maintenance.command()
@click.argument("maintenance_id", metavar="ID", type=click.IntRange(min=1))
@shared_options
def end(invocation: Invocation, *, maintenance_id: int) -> None:
    """End a maintenance window now.

    Example:
      taskq maintenance end 3
    """
    with invocation.client() as client:
        done = client.maintenance.end(maintenance_id)
    text = f"Maintenance {maintenance_id} {'is ended' if done else 'had ended already'}."
    write_record(invocation.output, {"maintenance_id": maintenance_id, "ended": done}, text)
