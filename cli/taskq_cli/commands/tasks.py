"""`taskq tasks`, `taskq retry` and `taskq cancel`: list, retry and cancel a campaign's tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import click

from taskq import Client
from taskq.export.json_values import as_json
from taskq.steering import verbs
from taskq.words import counted
from taskq_cli.chunk_display import bulk_display
from taskq_cli.counts import STATUSES
from taskq_cli.early_exits import resumable
from taskq_cli.error_classes import explain_no_such_class
from taskq_cli.filter_options import LastProgress, dry_run_option, where_option, write_dry_run
from taskq_cli.output import Column, as_record, write_record, write_records
from taskq_cli.shared import (
    Invocation,
    campaign_column,
    campaigns_with,
    confirm,
    limit_option,
    path_argument,
    shared_options,
    yes_option,
)

_key_option: Final = click.option(
    "--key", "keys", multiple=True, metavar="KEY", help="Only this task. May be repeated."
)


@click.command()
@path_argument(metavar="CAMPAIGN")
@click.option("--status", type=click.Choice(STATUSES), help="Only tasks in this status.")
@_key_option
@where_option
@limit_option
@shared_options
def tasks(
    invocation: Invocation,
    *,
    path: str,
    status: str | None,
    keys: tuple[str, ...],
    where: str | None,
    limit: int | None,
) -> None:
    """List tasks, in the order of seeding.

    Lists the tasks of CAMPAIGN and all below it.

    Examples:
      taskq tasks /demo --status failed --limit 20
      taskq tasks /demo --where 'host = "n17" and state = "failed"'
    """
    verbs.check_choice(keys or None, where, dry_run=False)
    with invocation.client() as client:
        records = (
            _with_keys(client, path, keys, status) if keys else _all(client, path, status, where)
        )
        columns = [
            *campaign_column(client, path),
            Column("key"),
            Column("status"),
            Column("attempt"),
            Column("failures"),
            Column("losses"),
            Column("priority"),
            Column("since", lambda one: one["claimed_at"]),
            Column("due", lambda one: one["due_at"] if one["status"] == "delayed" else None),
            Column("host"),
            Column("payload", lambda one: as_json(one["payload"]), gives_way=True),
        ]
        write_records(invocation.output, records, columns, limit=limit)


@click.command()
@path_argument(metavar="CAMPAIGN")
@click.option(
    "--status",
    type=click.Choice(["failed", "cancelled"]),
    default="failed",
    show_default=True,
    help="Tasks in this status.",
)
@click.option(
    "--error-class",
    metavar="CLASS",
    help="Only tasks whose last attempt ended with this class, as `taskq failures` names it: "
    "time-limit, agent-lost, exit-3, the name of an exception.",
)
@_key_option
@where_option
@dry_run_option
@shared_options
def retry(
    invocation: Invocation,
    *,
    path: str,
    status: str,
    error_class: str | None,
    keys: tuple[str, ...],
    where: str | None,
    dry_run: bool,
) -> None:
    """Retry failed or cancelled tasks.

    Retries tasks of CAMPAIGN and all below it. Their failures count from zero again.

    Examples:
      taskq retry /demo --error-class time-limit
      taskq retry /demo --where 'error ~ "timeout" and host = "n17"' --dry-run
    """
    last = LastProgress()
    with invocation.client() as client:
        campaign = client.campaign(path)
        with resumable(), bulk_display(f"looking at {path}", last.note) as show:
            moved = campaign.retry(
                status=status,
                error_class=error_class,
                keys=keys or None,
                where=where,
                dry_run=dry_run,
                on_progress=show,
            )
        why = (
            explain_no_such_class(client, path, error_class) if error_class and not moved else None
        )
    if dry_run:
        would = "would be tried again"
        write_dry_run(invocation, path, moved, last, would=would, where=where)
    else:
        text = f"{counted(moved, 'task')} of {path} will be tried again."
        write_record(invocation.output, {"path": path, "tasks": moved}, text)
    if why is not None:
        click.echo(why, err=True)


@click.command()
@path_argument(metavar="CAMPAIGN")
@_key_option
@where_option
@dry_run_option
@yes_option
@shared_options
def cancel(
    invocation: Invocation,
    *,
    path: str,
    keys: tuple[str, ...],
    where: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Cancel tasks that are not final.

    Cancels all tasks of CAMPAIGN and below it, or with --where those that match, or with --key some
    of CAMPAIGN itself. Agents stop those that they run. A campaign that was cancelled as a whole
    accepts no tasks until `taskq campaign resume`; `taskq retry --status cancelled` restores
    cancelled tasks.

    Examples:
      taskq cancel /demo --key seed=7 --key seed=8
      taskq cancel /demo --where 'payload.charge != 0' --dry-run
      taskq campaign cancel /demo --yes
    """
    last = LastProgress()
    with invocation.client() as client:
        campaign = client.campaign(path)
        if not keys and where is None and not dry_run:
            unfinished = counted(campaign.status().unfinished, "unfinished task")
            confirm(f"Cancel {path} and all below it, with {unfinished}?", yes=yes)
        with resumable(), bulk_display(f"looking at {path}", last.note) as show:
            moved = campaign.cancel(keys or None, where=where, dry_run=dry_run, on_progress=show)
    if dry_run:
        would = "would be cancelled"
        write_dry_run(invocation, path, moved, last, would=would, where=where)
        return
    text = f"{counted(moved, 'task')} of {path} cancelled."
    write_record(invocation.output, {"path": path, "tasks": moved}, text)


def _all(
    client: Client, path: str, status: str | None, where: str | None
) -> Iterator[dict[str, Any]]:
    def wanted(node: Any) -> int:
        return int(node.total if status is None else getattr(node, status))

    for campaign in campaigns_with(client, path, wanted):
        for task in campaign.tasks(status, where=where):
            yield as_record(task, campaign=campaign.path)


def _with_keys(
    client: Client, path: str, keys: tuple[str, ...], status: str | None
) -> Iterator[dict[str, Any]]:
    campaign = client.campaign(path)
    for task in [campaign.task(key) for key in keys]:
        if status is None or task.status == status:
            yield as_record(task, campaign=path)
