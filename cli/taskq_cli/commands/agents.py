"""`taskq agents`: who works."""

from __future__ import annotations

import click

from taskq_cli.output import TABLE_ROWS, Column, as_record, write_records
from taskq_cli.shared import Invocation, limit_option, path_argument, shared_options
from taskq_cli.text import duration

MAX_AGENTS = 1_000_000


@click.command()
@path_argument(default="/")
@limit_option
@shared_options
def agents(invocation: Invocation, *, path: str, limit: int | None) -> None:
    """List the agents that are at work.

    Those that serve PATH, something above or something below it. The one that has been silent
    longest comes first.

    Example:
      taskq agents /demo
    """
    most = limit or (TABLE_ROWS if invocation.output == "table" else MAX_AGENTS - 1)
    with invocation.client() as client:
        found = client.agents(path, limit=most + 1)
    columns = [
        Column("agent"),
        Column("host"),
        Column("site"),
        Column("pid"),
        Column("slots"),
        Column("working"),
        Column("silent", lambda one: duration(one["silent_s"])),
        Column("since", lambda one: one["opened_at"]),
        Column("campaign", lambda one: one["path"]),
        Column("offers", lambda one: " ".join(one["offers"]), gives_way=True),
        Column("release", gives_way=True),
    ]
    write_records(invocation.output, map(as_record, found), columns, limit=limit)
