"""Options of commands that act on tasks which match a filter, and what a dry run shows."""

from __future__ import annotations

import shlex
from typing import Any, Final

import click

from taskq.campaign.bulk import BulkProgress
from taskq.campaign.filter_compiler import compiled
from taskq.model.views import TaskView
from taskq.model.words import counted
from taskq_cli.display.output import as_record, write_record
from taskq_cli.display.text import one_line
from taskq_cli.shared import Invocation


def _readable(_: click.Context, __: click.Parameter, where: str | None) -> str | None:
    compiled(where)
    return where


where_option: Final = click.option(
    "--where",
    metavar="FILTER",
    callback=_readable,
    help="Only tasks that match, as 'error ~ \"timeout\" and attempts < 3'; docs/manager.md has "
    "the fields.",
)


class LastProgress:
    """The latest progress of a bulk action, for what is said at its end."""

    def __init__(self) -> None:
        self.examples: tuple[TaskView, ...] = ()

    def note(self, progress: BulkProgress) -> None:
        """Keep what a dry run will show."""
        self.examples = progress.examples


def write_dry_run(
    invocation: Invocation,
    path: str,
    matched: int,
    last: LastProgress,
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
