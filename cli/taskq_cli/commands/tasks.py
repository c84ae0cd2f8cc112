"""`taskq tasks`, `taskq retry` and `taskq cancel`: list, retry and cancel a campaign's tasks."""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, Final

import click

from taskq import Client
from taskq.campaign import verbs
from taskq.campaign.bulk import BulkProgress
from taskq.model.seed import STATUSES
from taskq.model.views import TaskView
from taskq.model.words import as_json, counted, progress
from taskq_cli.display.output import Column, Record, as_record, write_record, write_records
from taskq_cli.display.progress import chunk_display
from taskq_cli.display.text import most_common, one_line
from taskq_cli.early_exits import confirm, resumable
from taskq_cli.invocation import Invocation, campaign_column, campaigns_with
from taskq_cli.options.shared import (
    below_option,
    dry_run_option,
    limit_option,
    path_argument,
    reading_options,
    shared_options,
    where_option,
    yes_option,
)


class BulkDisplay:
    """Shows the progress of a bulk action; keeps the examples that a dry run writes at its end."""

    def __init__(self, path: str) -> None:
        self.examples: tuple[TaskView, ...] = ()
        self._path = path

    @contextmanager
    def shown(self) -> Iterator[Callable[[BulkProgress], None]]:
        """Yield what takes the progress; turn Ctrl-C into `Interrupted`."""
        with resumable(), chunk_display(f"looking at {self._path}") as show:

            def note(one: BulkProgress) -> None:
                self.examples = one.examples
                show(one.looked, one.of, f"{one.matched:,} match")

            yield note


def write_dry_run(
    invocation: Invocation,
    path: str,
    matched: int,
    last: BulkDisplay,
    *,
    would: str,
    where: str | None,
    below: bool,
) -> None:
    """Write what a dry run has found, with a filter also examples.

    would: what would happen to the tasks.
    """
    examples = [as_record(task) for task in last.examples]
    record: dict[str, Any] = {"path": path, "tasks": matched, "dry_run": True}
    if where is not None:
        record["examples"] = examples
    lines = [f"{counted(matched, 'task')} of {path} {would}; nothing was changed."]
    lines += [
        one_line(f"  {one['campaign']}  {one['key']}  {one['status']}, attempt {one['attempt']}")
        for one in examples
    ]
    if where is not None and matched > len(examples):
        extent = "" if below else " --no-below"
        lines.append(f"All: taskq tasks {path}{extent} --where {shlex.quote(one_line(where))}")
    write_record(invocation.output, record, "\n".join(lines))


SHOWN = 6
MAX_GROUPED = 100_000
"""Most failed and lost attempts that are grouped: grouping reads each of them, which takes time."""


def explain_no_such_class(client: Client, path: str, error_class: str) -> str:
    """Return a sentence: no task has this error class; these classes exist, most frequent first.

    Handlers choose the classes, as `exit-3` or `dock.BadReceptor`, so any name may be valid.
    """
    none = f"No such task of {path} ended with the class {one_line(error_class)!r}"
    status = client.campaign(path).status()
    if status.failures + status.losses > MAX_GROUPED:
        return f"{none}; `taskq failures {path}` lists the classes."
    there: Counter[str] = Counter()
    for campaign in campaigns_with(client, path, lambda node: node.failures or node.losses):
        there.update(campaign.failure_classes(below=False))
    if not there:
        return f"{none}; no attempt there has failed or was lost."
    return f"{none}; attempts there have: {most_common(there, SHOWN)}."


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

    HOST and SINCE belong to the running attempt, or, with CLASS, to the end of the last one.

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
            "Filters on host, site, class, error and exit_code see only a task's last attempt; "
            "`taskq failures` shows earlier ones as well.",
            err=True,
        )


@click.command()
@path_argument(metavar="CAMPAIGN")
@click.option(
    "--status",
    type=click.Choice(["failed", "cancelled", "delayed"]),
    default="failed",
    show_default=True,
    help="Tasks in this status.",
)
@click.option(
    "--error-class",
    metavar="CLASS",
    help="Only tasks whose last attempt ended with this class, as in `taskq failures`: time-limit, "
    "agent-lost, exit-3, the name of an exception.",
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
    """Retry failed, cancelled or delayed tasks of CAMPAIGN and all below it.

    Their failures count from zero again, and any host may have them. Delayed tasks do not wait for
    their backoff. Cancelled campaigns below are left out. Without --key,
    --where and --error-class, the command asks first.

    Examples:
      taskq retry /demo --error-class time-limit
      taskq retry /demo --where 'error ~ "timeout" and host = "n17"' --dry-run
    """
    last = BulkDisplay(path)
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
        with last.shown() as show:
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

    Agents stop running ones. Without --key, --where and --no-below, the campaigns themselves are
    cancelled: they accept no tasks until `taskq campaign resume`. `taskq retry --status cancelled`
    restores cancelled tasks. Without --key and --where, the command asks first.

    Examples:
      taskq cancel /demo --key seed=7 --key seed=8
      taskq cancel /demo --where 'payload.charge != 0' --dry-run
      taskq campaign cancel /demo --yes
    """
    last = BulkDisplay(path)
    with invocation.client() as client:
        campaign = client.campaign(path)
        if not (dry_run or keys or where is not None):
            unfinished = counted(campaign.status(below=below).unfinished, "unfinished task")
            confirm(f"Cancel {_extent(path, below=below)}, with {unfinished}?", yes=yes)
        with last.shown() as show:
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
