"""`taskq failures`: what went wrong, by class of error."""

from __future__ import annotations

from collections.abc import Iterator

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


@click.command()
@path_argument(metavar="CAMPAIGN")
@click.option("--tasks", is_flag=True, help="List each failed task with its last attempt instead.")
@limit_option
@shared_options
def failures(invocation: Invocation, *, path: str, tasks: bool, limit: int | None) -> None:
    """Group failed attempts by class of error.

    Those of CAMPAIGN and all below it that failed, were lost, or were refused by hosts that cannot
    run them, with hosts and an example. An attempt counts also if its task has succeeded since.

    Example:
      taskq failures /demo
    """
    with invocation.client() as client:
        records = _failed_tasks(client, path) if tasks else _classes(client, path)
        columns = [*campaign_column(client, path), *(_TASK_COLUMNS if tasks else _CLASS_COLUMNS)]
        write_records(invocation.output, records, columns, limit=limit)


def _hosts(one: Record) -> str:
    more = one["hosts"] - len(one["some_hosts"])
    return ", ".join(one["some_hosts"]) + (f" and {more} more" if more else "")


_CLASS_COLUMNS = [
    Column("class", lambda one: one["error_class"] or "(none)"),
    Column("attempts"),
    Column("tasks"),
    Column("error", lambda one: one["example_error"], gives_way=True),
    Column("example", lambda one: one["example_key"]),
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


def _classes(client: Client, path: str) -> Iterator[Record]:
    refused = {one.path for one in client.refusals(path)}
    for campaign in campaigns_with(
        client, path, lambda node: node.failures or node.losses or node.path in refused
    ):
        for one in campaign.failure_classes():
            yield as_record(one, campaign=campaign.path)


def _failed_tasks(client: Client, path: str) -> Iterator[Record]:
    for campaign in campaigns_with(client, path, lambda node: node.failed):
        for failure in campaign.failures():
            yield as_record(failure, campaign=campaign.path)
