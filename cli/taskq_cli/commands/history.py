"""`taskq history`: what happened to a task, in order."""

from __future__ import annotations

import click

from taskq.model.words import instant
from taskq_cli.display.output import Column, as_record, write_records
from taskq_cli.shared import Invocation, path_argument, reading_options

_COLUMNS = [
    Column("at", lambda one: instant(one["at"]) or "now"),
    Column("event", lambda one: one["what"]),
    Column("attempt"),
    Column("host", sparse=True),
    Column("site", sparse=True, yields=1),
    Column("detail", gives_way=True),
    Column("agent", sparse=True, yields=2),
]


@click.command()
@path_argument(metavar="CAMPAIGN")
@click.argument("key")
@reading_options
def history(invocation: Invocation, *, path: str, key: str) -> None:
    """Show what happened to a task, in order.

    Shows when the attempts of the task KEY of CAMPAIGN were claimed, where, how they ended, and how
    the task stands now. `taskq logs` shows their output, `taskq explain` why it does not run.

    Example:
      taskq history /demo seed=7
    """
    with invocation.reader() as client:
        events = client.campaign(path).history(key)
    write_records(invocation.output, map(as_record, events), _COLUMNS)
