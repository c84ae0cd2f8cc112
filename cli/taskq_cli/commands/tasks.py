"""`taskq tasks`, `taskq retry` and `taskq cancel`: list, retry and cancel a campaign's tasks."""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final

import click

from taskq import Client
from taskq.campaign import verbs
from taskq.campaign.bulk import BulkProgress, Choice
from taskq.model.seed import RETRIABLE, STATUSES
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


@dataclass
class Bulk:
    """Acts on tasks of a campaign in bulk, shows the progress, and writes what was done."""

    invocation: Invocation
    path: str
    where: str | None
    below: bool
    dry_run: bool
    examples: tuple[TaskView, ...] = ()

    def run(self, act: Callable[..., int]) -> int:
        """Act; return how many tasks it moved, or would move. Ctrl-C becomes `Interrupted`."""
        with resumable(), chunk_display(f"looking at {self.path}") as show:

            def note(one: BulkProgress) -> None:
                self.examples = one.examples
                show(one.looked, one.of, f"{one.matched:,} match")

            return act(where=self.where, below=self.below, dry_run=self.dry_run, on_progress=note)

    def write(self, moved: int, *, done: str, would: str) -> None:
        """Write what was done, or would be; for a dry run with a filter also examples."""
        record: dict[str, Any] = {"path": self.path, "tasks": moved, "dry_run": self.dry_run}
        tasks = f"{counted(moved, 'task')} of {self.path}"
        lines = [f"{tasks} {would}; nothing was changed." if self.dry_run else f"{tasks} {done}."]
        if self.dry_run and self.where is not None:
            record["examples"] = self.examples
            lines += [
                one_line(f"  {one.campaign}  {one.key}  {one.status}, attempt {one.attempt}")
                for one in self.examples
            ]
            if moved > len(self.examples):
                extent = "" if self.below else " --no-below"
                where = shlex.quote(one_line(self.where))
                lines.append(f"All: taskq tasks {self.path}{extent} --where {where}")
        write_record(self.invocation.output, record, "\n".join(lines))


SHOWN = 6
MAX_GROUPED = 100_000
"""Most failed and lost attempts that are grouped: grouping reads them all, which takes time."""


def explain_no_such_class(client: Client, path: str, error_class: str) -> str:
    """Return a sentence: no task has this error class; these classes exist, most frequent first.

    Handlers choose the classes, such as `exit-3` or `dock.BadReceptor`, so any name may be valid.
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
#: Statuses in which the last attempt shows why a task is where it is.
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
    Choice(keys or None, where)  # not both
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
            Column(
                "progress",
                lambda one: progress(one["progress"], one["progress_note"]),
                gives_way=True,
            ),
            Column("attempt"),
            Column("failures"),
            Column("losses"),
            Column("priority"),
            Column("since", lambda one: one["claimed_at"] or one["last"].get("ended_at")),
            Column("due", lambda one: one["due_at"] if one["status"] == "delayed" else None),
            Column("host", lambda one: one["host"] or one["last"].get("host")),
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
    type=click.Choice(RETRIABLE),
    help="Tasks in this status. [default: the only one that --where allows, or failed]",
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
    status: str | None,
    error_class: str | None,
    keys: tuple[str, ...],
    where: str | None,
    below: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Retry failed, cancelled, delayed or done tasks in and below CAMPAIGN.

    Their failures count from zero again, and any host may get them. Delayed tasks do not wait for
    their backoff. Results of done tasks are withdrawn: they stay in `taskq logs`, and other
    hosts get these tasks first. Cancelled campaigns below are left out. For done tasks, and without
    --key, --where and --error-class, the command asks first.

    Examples:
      taskq retry /demo --error-class time-limit
      taskq retry /demo --where 'host = "n17" and status = done'
      taskq retry /demo --where 'error ~ "timeout" and host = "n17"' --dry-run
    """
    bulk = Bulk(invocation, path, where, below, dry_run)
    status = verbs.status_to_retry(status, where)
    with invocation.client() as client:
        campaign = client.campaign(path)
        again = partial(campaign.retry, status=status, error_class=error_class, keys=keys or None)
        named = (keys or error_class or where is not None) and status != "done"
        if not (dry_run or yes or named) and (
            found := again(where=where, below=below, dry_run=True)
        ):
            what = counted(found, f"{status} task")
            loses = " Their results are withdrawn." if status == "done" else ""
            confirm(f"Retry {what} of {_extent(path, below=below)}?{loses}", yes=yes)
        moved = bulk.run(again)
        why = (
            explain_no_such_class(client, path, error_class) if error_class and not moved else None
        )
    bulk.write(moved, done="will be tried again", would="would be tried again")
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
    bulk = Bulk(invocation, path, where, below, dry_run)
    with invocation.client() as client:
        campaign = client.campaign(path)
        if not (dry_run or keys or where is not None):
            unfinished = counted(campaign.status(below=below).unfinished, "unfinished task")
            confirm(f"Cancel {_extent(path, below=below)}, with {unfinished}?", yes=yes)
        moved = bulk.run(partial(campaign.cancel, keys or None))
    bulk.write(moved, done="cancelled", would="would be cancelled")


def _with_last(client: Client, records: Iterator[Record], seen: list[Record]) -> Iterator[Record]:
    """Yield tasks with their last attempts; add the first task of each chunk to `seen`."""
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


def _extent(path: str, *, below: bool) -> str:
    return f"{path} and all below it" if below else f"{path} itself"


def _with_keys(
    client: Client, path: str, keys: tuple[str, ...], status: str | None
) -> Iterator[Record]:
    campaign = client.campaign(path)
    for task in [campaign.task(key) for key in keys]:
        if status is None or task.status == status:
            yield as_record(task)
