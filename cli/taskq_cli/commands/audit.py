"""`taskq audit`: check the queue's guarantees on the tables of a live database."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, TypeAlias

import click

from taskq.model.views import Violation
from taskq.model.words import counted, duration, rate
from taskq_cli.display import render
from taskq_cli.display.output import TABLE_ROWS, Column, as_record, write_records
from taskq_cli.display.rate_meter import RateMeter
from taskq_cli.early_exits import Violated
from taskq_cli.shared import Invocation, limit_option, path_argument, shared_options

Look: TypeAlias = Callable[[str, int], None]

_WINDOW_S: Final = 10.0
_REDRAW_S: Final = 0.1
_COLUMNS: Final = [
    Column("campaign"),
    Column("task", lambda one: one["task_id"]),
    Column("key", lambda one: one["rows"].get("key")),
    Column("check"),
    Column("what", lambda one: one["text"], gives_way=True),
]


@click.command()
@path_argument(default="/")
@limit_option
@shared_options
def audit(invocation: Invocation, *, path: str, limit: int | None) -> None:
    """Check the queue's guarantees about tasks, while the queue is at work.

    For PATH and all below it: no task has two live leases, exactly one outcome of each final task
    is accepted, attempts are numbered without gaps, nothing happens after the end, and counts
    equal a recount. Violations are listed, in JSON with the rows concerned, and the exit code is
    1. Only the owner of the schema may run it, as it reads leases.

    Example:
      taskq audit /demo
    """
    with invocation.client() as client:
        nodes = client.campaign(path).tree()
        tasks = sum(node.total for node in nodes)
        if invocation.output == "table":
            with _display(tasks) as look:
                found = _Records(client.audit(path, look))
                records = iter(found)
                shown = list(islice(records, limit or TABLE_ROWS))
                for _ in records:  # those beyond the limit are counted
                    pass
            if shown:
                write_records("table", shown, _COLUMNS, limit=len(shown))
            else:
                where = counted(len(nodes), "campaign")
                click.echo(f"{counted(tasks, 'task')} in {where}: nothing breaks a promise.")
        else:
            found = _Records(client.audit(path))
            records = iter(found)
            write_records(invocation.output, records, _COLUMNS, limit=limit)
        for _ in records:  # those beyond the limit are counted
            pass
    if found.count:
        sys.stdout.flush()  # output that is lost is told before what it says
        hint = "; --output json has the rows in question" if invocation.output == "table" else ""
        raise Violated(f"{counted(found.count, 'violation')} found{hint}.")


class _Records:
    """Violations as records, counted as they pass."""

    def __init__(self, violations: Iterator[Violation]) -> None:
        self.count = 0
        self._violations = violations

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for violation in self._violations:
            self.count += 1
            yield as_record(violation)


@contextmanager
def _display(tasks: int) -> Iterator[Look]:
    """Yield a function that shows on a terminal how many of the tasks were checked."""
    if not render.can_redraw(sys.stderr):
        yield lambda _, __: None
        return
    meter, drawn_at, done = RateMeter(_WINDOW_S), time.monotonic(), 0
    meter.add(drawn_at, 0)
    with render.live(sys.stderr, keep=False) as draw:

        def look(path: str, checked: int) -> None:
            nonlocal drawn_at, done
            done += checked
            now = time.monotonic()
            meter.add(now, done)
            if now - drawn_at < _REDRAW_S:
                return
            drawn_at = now
            per_s = meter.per_s()
            parts = [f"checking {path}", f"{done:,} of {tasks:,} tasks"]
            if per_s:
                left_s = max(0, tasks - done) / per_s
                parts += [rate(per_s), f"ETA {duration(left_s)}"]
            draw(render.progress(min(1.0, done / max(1, tasks)), "  ".join(parts)))

        yield look
