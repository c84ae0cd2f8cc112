"""`taskq tasks`, `taskq retry` and `taskq cancel`: list, retry and cancel a campaign's tasks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any, Final

import click

from taskq import Client
from taskq.campaign import verbs
from taskq.model.json_values import as_json
from taskq.model.seed import STATUSES
from taskq.model.words import counted, progress
from taskq_cli.display.chunks import bulk_display
from taskq_cli.display.error_classes import explain_no_such_class
from taskq_cli.display.output import Column, Record, as_record, write_record, write_records
from taskq_cli.early_exits import resumable
from taskq_cli.options.filter import LastProgress, where_option, write_dry_run
from taskq_cli.shared import (
    Invocation,
    below_option,
    campaign_column,
    confirm,
    dry_run_option,
    limit_option,
    path_argument,
    reading_options,
    shared_options,
    yes_option,
)

_CHUNK: Final = 200
#: Statuses in which the last attempt tells why a task is where it is.
_ENDED: Final = frozenset({"failed", "delayed", "waiting"})
_OF_ATTEMPTS: Final = re.compile(r"\b(host|site|class|error|exit_code)\b")

_key_option: Final = click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="KEY",
    help="Only this task of CAMPAIGN itself. May be repeated.",
)


@click.command()
@path_argument(metavar="CAMPAIGN")
@click.option("--status", type=click.Choice(STATUSES), help="Only tasks in this status.")
@_key_option
@where_option
@below_option
@limit_option
@reading_options
def tasks(
    invocation: Invocation,
    *,
    path: str,
    status: str | None,
    keys: tuple[str, ...],
    where: str | None,
    below: bool,
    limit: int | None,
) -> None:
    """List the tasks of CAMPAIGN and all below it, in the order of seeding.

    HOST and SINCE are of the attempt that runs, else, with CLASS, of the last one and its end.

    Examples:
      taskq tasks /demo --status failed --limit 20
      taskq tasks /demo --where 'host = "n17" and state = "failed"'
    """
    verbs.check_choice(keys or None, where)
    with invocation.reader() as client:
        found = client.campaign(path).tasks(status, where=where, below=below)
        records: Iterator[Record]
        records = _with_keys(client, path, keys, status) if keys else map(as_record, found)
        seen: list[Record] = []
        if invocation.output == "table":
            records = _with_last(client, records, seen)
        columns = [
            *campaign_column(client, path, below=below),
            Column("key"),
            Column("status"),
            Column("progress", _progress, gives_way=True),
            Column("attempt"),
            Column("failures"),
            Column("losses"),
            Column("priority"),
            Column("since", _since),
            Column("due", lambda one: one["due_at"] if one["status"] == "delayed" else None),
            Column("host", _host),
            Column("class", lambda one: one["last"].get("error_class")),
            Column("payload", lambda one: as_json(one["payload"]), gives_way=True),
        ]
        write_records(invocation.output, records, columns, limit=limit)
    if (
        where is not None
        and invocation.output == "table"
        and not seen
        and _OF_ATTEMPTS.search(where)
    ):
        click.echo(
            "Host, site, class, error and exit_code are those of a task's last attempt only; "
            "`taskq failures` has earlier ones as well.",
            err=True,
        )


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
@below_option
@dry_run_option
@yes_option
@shared_options
def retry(
    invocation: Invocation,
    *,
    path: str,
    status: str,
    error_class: str | None,
    keys: tuple[str, ...],
    where: str | None,
    below: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Retry failed or cancelled tasks of CAMPAIGN and all below it.

    Their failures count from zero again. Campaigns below that are cancelled are left out. If
    none of --key, --where and --error-class says which tasks, it asks first.

    Examples:
      taskq retry /demo --error-class time-limit
      taskq retry /demo --where 'error ~ "timeout" and host = "n17"' --dry-run
    """
    last = LastProgress()
    with invocation.client() as client:
        campaign = client.campaign(path)
        again = partial(
            campaign.retry,
            status=status,
            error_class=error_class,
            keys=keys or None,
            where=where,
            below=below,
        )
        named = keys or error_class or where is not None
        if not (dry_run or yes or named) and (found := again(dry_run=True)):
            what = counted(found, f"{status} task")
            confirm(f"Retry {what} of {_extent(path, below=below)}?", yes=yes)
        with resumable(), bulk_display(f"looking at {path}", last.note) as show:
            moved = again(dry_run=dry_run, on_progress=show)
        why = (
            explain_no_such_class(client, path, error_class) if error_class and not moved else None
        )
    if dry_run:
        write_dry_run(
            invocation, path, moved, last, would="would be tried again", where=where, below=below
        )
    else:
        text = f"{counted(moved, 'task')} of {path} will be tried again."
        write_record(invocation.output, {"path": path, "tasks": moved, "dry_run": False}, text)
    if why is not None:
        click.echo(why, err=True)


@click.command()
@path_argument(metavar="CAMPAIGN")
@_key_option
@where_option
@below_option
@dry_run_option
@yes_option
@shared_options
def cancel(
    invocation: Invocation,
    *,
    path: str,
    keys: tuple[str, ...],
    where: str | None,
    below: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Cancel tasks of CAMPAIGN and all below it that are not final.

    Agents stop those that they run. Campaigns that were cancelled as a whole, without --key,
    --where and --no-below, accept no tasks until `taskq campaign resume`; `taskq retry --status
    cancelled` restores cancelled tasks. If neither --key nor --where says which tasks, it asks
    first.

    Examples:
      taskq cancel /demo --key seed=7 --key seed=8
      taskq cancel /demo --where 'payload.charge != 0' --dry-run
      taskq campaign cancel /demo --yes
    """
    last = LastProgress()
    with invocation.client() as client:
        campaign = client.campaign(path)
        if not (dry_run or keys or where is not None):
            unfinished = counted(campaign.status(below=below).unfinished, "unfinished task")
            confirm(f"Cancel {_extent(path, below=below)}, with {unfinished}?", yes=yes)
        with resumable(), bulk_display(f"looking at {path}", last.note) as show:
            moved = campaign.cancel(
                keys or None, where=where, below=below, dry_run=dry_run, on_progress=show
            )
    if dry_run:
        write_dry_run(
            invocation, path, moved, last, would="would be cancelled", where=where, below=below
        )
        return
    text = f"{counted(moved, 'task')} of {path} cancelled."
    write_record(invocation.output, {"path": path, "tasks": moved, "dry_run": False}, text)


def _with_last(client: Client, records: Iterator[Record], seen: list[Record]) -> Iterator[Record]:
    """Yield tasks with their last attempts, a chunk at a time; keep the first one in `seen`."""
    while chunk := list(islice(records, _CHUNK)):
        seen.extend(chunk[:1])
        tried = defaultdict(list)
        for one in chunk:
            if one["attempt"] and one["status"] in _ENDED:
                tried[one["campaign"]].append(one["task_id"])
        last: dict[int, Record] = {}
        for path, tasks in tried.items():
            campaign = client.campaign(path).campaign_id
            rows = client.queries.rows("last_attempts", campaign=campaign, tasks=tasks)
            last |= {row["task_id"]: row for row in rows}
        yield from (dict(one) | {"last": last.get(one["task_id"], {})} for one in chunk)


def _since(task: Record) -> Any:
    return task["claimed_at"] or task["last"].get("ended_at")


def _host(task: Record) -> Any:
    return task["host"] or task["last"].get("host")


def _progress(task: Record) -> str:
    return progress(task["progress"], task["progress_note"])


def _extent(path: str, *, below: bool) -> str:
    return f"{path} and all below it" if below else f"{path} itself"


def _with_keys(
    client: Client, path: str, keys: tuple[str, ...], status: str | None
) -> Iterator[Record]:
    campaign = client.campaign(path)
    for task in [campaign.task(key) for key in keys]:
        if status is None or task.status == status:
            yield as_record(task)
