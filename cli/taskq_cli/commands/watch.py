"""`taskq watch`: follow a campaign until no task is unfinished."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Final, TypeAlias

import click

from taskq import Client
from taskq.diagnosis.due import last_due_s
from taskq.model.errors import Unavailable, UsageError
from taskq.model.words import counted, duration
from taskq_cli.display import render
from taskq_cli.display.counts import final
from taskq_cli.display.estimated_rate import EstimatedRate
from taskq_cli.display.output import write_record
from taskq_cli.display.overview import read_overview
from taskq_cli.display.progress import Progress
from taskq_cli.display.rate_meter import RateMeter
from taskq_cli.display.text import one_line
from taskq_cli.early_exits import TasksFailed, TimedOut
from taskq_cli.shared import (
    Invocation,
    below_option,
    path_argument,
    seconds,
    shared_options,
)

ENOUGH: Final = 10
"""Fewest tasks within a minute from which a rate is measured and not estimated."""

Show: TypeAlias = Callable[[Progress], None]


@click.command()
@path_argument(default="/")
@click.option(
    "--interval",
    type=seconds(0.1, 3_600),
    default=2.0,
    show_default=True,
    metavar="TIME",
    help="Time between two samples.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=seconds(0),
    metavar="TIME",
    help="End with code 124 if tasks are unfinished after this time. [default: none]",
)
@below_option
@shared_options
def watch(
    invocation: Invocation, *, path: str, interval: float, timeout_s: float | None, below: bool
) -> None:
    """Follow PATH until no task there or below is unfinished.

    On a terminal the display redraws itself; elsewhere each sample is one line, in JSON with
    --output jsonl. The rate is that of the last minute. If fewer than ten tasks ended within it,
    the rate, marked with a ~, is that of the last hours, or estimated from the working tasks and
    the run times of the latest attempts. The end is not before the last delayed task is due. A
    campaign that is paused, by itself or not, has none: the command says so and goes on, since it
    may be resumed. While the server is unavailable, the command waits. Ctrl-C ends only the
    watching.

    Exit codes:
      0    no task is unfinished, and none has failed
      1    no task is unfinished, and some have failed
      124  the timeout is over

    Example:
      taskq watch /demo --timeout 2h
    """
    if invocation.output == "json":
        raise UsageError("watching makes records one after the other: use --output jsonl")
    with invocation.client() as client, _display(invocation.output) as show:
        meter, estimate = RateMeter(), EstimatedRate(client, path, below=below)
        began = time.monotonic()
        ends_at = math.inf if timeout_s is None else began + timeout_s
        status = None
        while True:
            looked_at = time.monotonic()
            try:
                progress = _sample(client, path, meter, estimate, began, below=below)
            except Unavailable as error:
                click.echo(f"{one_line(str(error))}; trying again", err=True)
            else:
                show(progress)
                status = progress.overview.status
                if not status.unfinished:
                    break
            if time.monotonic() >= ends_at:
                break
            time.sleep(max(0.0, min(looked_at + interval, ends_at) - time.monotonic()))
    sys.stdout.flush()  # output that is lost is told before what it says
    if status is None or status.unfinished:
        left = "unknown" if status is None else counted(status.unfinished, "unfinished task")
        raise TimedOut(f"{path} after {duration(timeout_s or 0)}: {left}.")
    if status.failed:
        raise TasksFailed(f"{counted(status.failed, 'task')} failed; see `taskq failures {path}`.")


def _sample(
    client: Client,
    path: str,
    meter: RateMeter,
    estimate: EstimatedRate,
    began: float,
    *,
    below: bool,
) -> Progress:
    overview = read_overview(client, path, below=below)
    status, now = overview.status, time.monotonic()
    meter.add(now, final(status))
    per_s, eta_s = meter.per_s(), meter.eta_s(status.unfinished)
    usual = estimate.per_s(status) if meter.counted() < ENOUGH else None
    if usual is not None:
        per_s, eta_s = usual, status.unfinished / usual
    due_s = None
    if below or not status.children:
        due_s = last_due_s(client.queries, status)
    if overview.closed_by and status.unfinished > status.working:
        eta_s = None
    elif eta_s is not None and due_s is not None:
        eta_s = max(eta_s, due_s)
    return Progress(
        overview=overview,
        children=client.campaign(path).child_statuses() if below and status.children else [],
        at=datetime.now(timezone.utc),
        elapsed_s=now - began,
        rate_per_s=per_s,
        eta_s=eta_s,
        by_history=usual is not None,
        last_due_s=due_s,
    )


@contextmanager
def _display(output: str) -> Iterator[Show]:
    if output == "table" and render.can_redraw(sys.stdout):
        with render.live(sys.stdout, keep=True) as show:
            yield lambda progress: show(progress.picture())
        return

    def line(progress: Progress) -> None:
        write_record(output, progress.record(), progress.line())
        sys.stdout.flush()

    yield line
