"""`taskq watch`: follow a campaign until no task is unfinished."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Final, TypeAlias

import click

from taskq import Client
from taskq.errors import Unavailable, UsageError
from taskq_cli import render
from taskq_cli.counts import final
from taskq_cli.estimated_rate import EstimatedRate
from taskq_cli.output import write_record
from taskq_cli.overview import read_overview
from taskq_cli.progress import Progress
from taskq_cli.rate_meter import RateMeter
from taskq_cli.shared import Invocation, path_argument, seconds, shared_options
from taskq_cli.text import one_line

ENOUGH: Final = 10
"""Fewest tasks within a minute from which a rate is measured and not estimated."""

Show: TypeAlias = Callable[[Progress], None]


@click.command()
@path_argument()
@click.option(
    "--interval",
    type=seconds(0.1, 3_600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two samples.",
)
@shared_options
def watch(invocation: Invocation, *, path: str, interval: float) -> None:
    """Follow PATH until no task there or below is unfinished.

    On a terminal the display redraws itself; elsewhere each sample is one line, in JSON with
    --output jsonl. The rate is that of the last minute. If fewer than ten tasks ended within it,
    the rate, marked with a ~, is estimated from the working tasks and the run times of the latest
    attempts. While the server is unavailable, the command waits. Ctrl-C ends only the watching.

    Example:
      taskq watch /demo
    """
    if invocation.output == "json":
        raise UsageError("watching makes records one after the other: use --output jsonl")
    with invocation.client() as client, _display(invocation.output) as show:
        meter, estimate, began = RateMeter(), EstimatedRate(client, path), time.monotonic()
        while True:
            looked_at = time.monotonic()
            try:
                progress = _sample(client, path, meter, estimate, began)
            except Unavailable as error:
                click.echo(f"{one_line(str(error))}; trying again", err=True)
            else:
                show(progress)
                if not progress.overview.status.unfinished:
                    return
            time.sleep(max(0.0, looked_at + interval - time.monotonic()))


def _sample(
    client: Client, path: str, meter: RateMeter, estimate: EstimatedRate, began: float
) -> Progress:
    overview = read_overview(client, path)
    status, now = overview.status, time.monotonic()
    meter.add(now, final(status))
    per_s, eta_s = meter.per_s(), meter.eta_s(status.unfinished)
    usual = estimate.per_s(status) if meter.counted() < ENOUGH else None
    if usual is not None:
        per_s, eta_s = usual, status.unfinished / usual
    return Progress(
        overview=overview,
        children=client.campaign(path).children() if status.children else [],
        at=datetime.now(timezone.utc),
        elapsed_s=now - began,
        rate_per_s=per_s,
        eta_s=eta_s,
        by_history=usual is not None,
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
