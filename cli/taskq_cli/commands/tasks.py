"""`taskq tasks`, `taskq retry` and `taskq cancel`: list, retry and cancel a campaign's tasks."""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Final

import click

from taskq import Client
from taskq.campaign import verbs
from taskq.campaign.bulk import BulkProgress
from taskq.diagnosis.tables.tasks import columns
from taskq.model.seed import RETRIABLE, STATUSES
from taskq.model.views import TaskView
from taskq.model.words import counted
from taskq_cli.display.output import Record, write_record, write_records
from taskq_cli.display.progress import chunk_display
from taskq_cli.display.text import most_common, one_line
from taskq_cli.early_exits import confirm, resumable
from taskq_cli.invocation import Invocation, campaign_column, campaigns_with
from taskq_cli.options.keys import keys_options, named_keys
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

SHOWN = 6
MAX_GROUPED = 100_000

_CHUNK: Final = 200
#: Statuses in which the last attempt shows why a task is where it is.
_ENDED: Final = frozenset({"failed", "delayed", "waiting"})
_OF_ATTEMPTS: Final = re.compile(r"\b(host|site|class|error|exit_code)\b")


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

            def note(progress: BulkProgress) -> None:
                self.examples = progress.examples
                show(progress.looked, progress.of, f"{progress.matched:,} match")

            return act(where=self.where, below=self.below, dry_run=self.dry_run, on_progress=note)

    def write(self, moved: int, *, done: str, would: str) -> None:
        """Write what was done, or would be; for a dry run with a filter also examples."""
        record: dict[str, Any] = {"path": self.path, "tasks": moved, "dry_run": self.dry_run}
        tasks = f"{counted(moved, 'task')} of {self.path}"
        lines = [f"{tasks} {would}; nothing was changed." if self.dry_run else f"{tasks} {done}."]
        if self.dry_run and self.where is not None:
            record["examples"] = self.examples
            lines += [
                one_line(
                    f"  {example.campaign}  {example.key}  {example.status}, "
                    f"attempt {example.attempt}"
                )
                for example in self.examples
            ]
            if moved > len(self.examples):
                extent = "" if self.below else " --no-below"
                where = shlex.quote(one_line(self.where))
                lines.append(f"All: taskq tasks {self.path}{extent} --where {where}")
        write_record(self.invocation.output, record, "\n".join(lines))


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


@click.command()
@path_argument(metavar="CAMPAIGN")
@click.option("--status", type=click.Choice(STATUSES), help="Only tasks in this status.")
@keys_options
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
    key_file: str | None,
    where: str | None,
    below: bool,
    limit: int | None,
) -> None:
    """List the tasks of CAMPAIGN and all below it, in the order of seeding.

    HOST and SINCE belong to the running attempt, or, with CLASS, to the end of the last one.

    Examples:
      taskq tasks /demo --status failed --limit 20
      taskq tasks /demo --where 'host = "n17" and state = "failed"'
      taskq tasks /demo --keys wanted.txt
    """
    keys = named_keys(keys, key_file)
    with invocation.reader() as client:
        campaign = client.campaign(path)
        rows = campaign.tasks(status, keys=keys or None, where=where, below=below)
        seen: list[TaskView] = []
        last: dict[tuple[str, int], Record] = {}
        if invocation.output == "table":
            rows = _with_last(client, rows, seen, last)
        shown = [
            *campaign_column(client, path, below=below),
            *columns(lambda task: last.get((task.campaign, task.task_id))),
        ]
        write_records(invocation.output, rows, shown, limit=limit)
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
@keys_options
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
    key_file: str | None,
    where: str | None,
    below: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Retry failed, cancelled, delayed or done tasks in and below CAMPAIGN.

    Their failures count from zero again, and any host may get them. Delayed tasks do not wait for
    their backoff. Results of done tasks are withdrawn: they stay in `taskq logs`, and other
    hosts get these tasks first. Cancelled campaigns below are left out. For done tasks, and without
    --key, --keys, --where and --error-class, the command asks first.

    Examples:
      taskq retry /demo --error-class time-limit
      taskq retry /demo --where 'host = "n17" and status = done'
      taskq retry /demo --where 'error ~ "timeout" and host = "n17"' --dry-run
    """
    bulk = Bulk(invocation, path, where, below, dry_run)
    keys = named_keys(keys, key_file)
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
@keys_options
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
    key_file: str | None,
    where: str | None,
    below: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Cancel tasks of CAMPAIGN and all below it that are not final.

    Agents stop running ones. Without --key, --keys, --where and --no-below, the campaigns
    themselves are cancelled: they accept no tasks until `taskq campaign resume`. `taskq retry
    --status cancelled` restores cancelled tasks. Without --key and --keys, the command says how
    many there are, and asks first.

    Examples:
      taskq cancel /demo --key seed=7 --key seed=8
      taskq cancel /demo --where 'payload.charge != 0' --dry-run
      taskq campaign cancel /demo --yes
    """
    bulk = Bulk(invocation, path, where, below, dry_run)
    keys = named_keys(keys, key_file)
    with invocation.client() as client:
        campaign = client.campaign(path)
        if not (dry_run or yes or keys):
            extent = _extent(path, below=below)
            if where is None:
                unfinished = counted(campaign.status(below=below).unfinished, "unfinished task")
                confirm(f"Cancel {extent}, with {unfinished}?", yes=yes)
            elif found := replace(bulk, dry_run=True).run(campaign.cancel):
                confirm(f"Cancel {counted(found, 'matching task')} of {extent}?", yes=yes)
        moved = bulk.run(partial(campaign.cancel, keys or None))
    bulk.write(moved, done="cancelled", would="would be cancelled")


def _with_last(
    client: Client,
    rows: Iterator[TaskView],
    seen: list[TaskView],
    last: dict[tuple[str, int], Record],
) -> Iterator[TaskView]:
    """Yield tasks. Note last attempts in `last`, and the first task of each chunk in `seen`."""
    while chunk := list(islice(rows, _CHUNK)):
        seen.extend(chunk[:1])
        tried = defaultdict(list)
        for task in chunk:
            if task.attempt and task.status in _ENDED:
                tried[task.campaign].append(task.task_id)
        for path, tasks in tried.items():
            campaign = client.campaign(path).campaign_id
            found = client.queries.rows("last_attempts", campaign=campaign, tasks=tasks)
            last |= {(path, row["task_id"]): row for row in found}
        yield from chunk


def _extent(path: str, *, below: bool) -> str:
    return f"{path} and all below it" if below else f"{path} itself"
