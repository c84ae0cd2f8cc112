"""`taskq failures`: failed and lost attempts, grouped by class of error and message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from taskq import Client
from taskq_cli.output import Column, Record, as_record, write_records
from taskq_cli.shared import (
    Invocation,
    campaign_column,
    campaigns_with,
    limit_option,
    path_argument,
    shared_options,
)

CAUSES: Final = 20
"""Most groups that are shown for a campaign, unless `--limit` says otherwise."""


@click.command()
@path_argument(metavar="CAMPAIGN")
@click.option("--tasks", is_flag=True, help="List each failed task with its last attempt instead.")
@limit_option
@shared_options
def failures(invocation: Invocation, *, path: str, tasks: bool, limit: int | None) -> None:
    """Group failed attempts by their cause.

    Groups the attempts of CAMPAIGN and all below it that failed, were lost, or were refused by
    hosts that cannot run them, by class of error and message, and for programs by the last line of
    their output. Each group shows attempts by host and the latest attempt. Messages that differ in
    numbers only are the same. An attempt also counts if its task has succeeded since.

    Example:
      taskq failures /demo
    """
    with invocation.client() as client:
        records = _failed_tasks(client, path) if tasks else _causes(client, path, limit)
        columns = [*campaign_column(client, path), *(_TASK_COLUMNS if tasks else _CAUSE_COLUMNS)]
        write_records(invocation.output, records, columns, limit=limit)


def _hosts(one: Record) -> str:
    more = one["hosts"] - len(one["some_hosts"])
    named = (f"{host} {attempts:,}" for host, attempts in one["some_hosts"].items())
    return ", ".join(named) + (f" and {more:,} more" if more else "")


_CAUSE_COLUMNS = [
    Column("class", lambda one: one["error_class"] or "(none)"),
    Column("attempts"),
    Column("tasks"),
    Column("example", lambda one: one["example_key"]),
    Column("error", lambda one: one["example_error"], gives_way=True),
    Column("last line of output", lambda one: one["example_line"], gives_way=True),
    Column("hosts", _hosts, gives_way=True),
    Column("last", lambda one: one["last_at"]),
]

_TASK_COLUMNS = [
    Column("key"),
    Column("class", lambda one: one["error_class"]),
    Column("error", gives_way=True),
    Column("attempt"),
    Column("host"),
    Column("ended", lambda one: one["ended_at"]),
]


def _causes(client: Client, path: str, limit: int | None) -> Iterator[Record]:
    most = CAUSES if limit is None else limit
    refused = {one.path for one in client.refusals(path)}
    for campaign in campaigns_with(
        client, path, lambda node: node.failures or node.losses or node.path in refused
    ):
        found = campaign.failure_causes(most)
        for one in found:
            yield as_record(one, campaign=campaign.path)
        if limit is None and found and (more := found[0].causes - len(found)) > 0:
            text = f"{more:,} more in {campaign.path}, of fewer attempts; --limit N shows more."
            click.echo(text, err=True)


def _failed_tasks(client: Client, path: str) -> Iterator[Record]:
    for campaign in campaigns_with(client, path, lambda node: node.failed):
        for failure in campaign.failures():
            yield as_record(failure, campaign=campaign.path)
