"""`taskq watch`: a campaign's progress, until it is through."""

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
from taskq_cli.history import History
from taskq_cli.output import write_record
from taskq_cli.overview import look
from taskq_cli.pace import RateMeter
from taskq_cli.progress import Progress
from taskq_cli.shared import Invocation, path_argument, seconds, shared_options
from taskq_cli.text import one_line

ENOUGH: Final = 10
"""Tasks within a minute that make a rate."""

Show: TypeAlias = Callable[[Progress], None]


@click.command()
@path_argument()
@click.option(
    "--interval",
    type=seconds(0.1, 3_600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to look.",
)
@shared_options
def watch(invocation: Invocation, *, path: str, interval: float) -> None:
    """Follow PATH until no task there or below is unfinished.

    On a terminal the display redraws itself; elsewhere there is a line for each look, in JSON
    with --output jsonl. The rate is that of the last minute, or, with a ~, where fewer than ten
    tasks ended within it, what the running ones make of it if they take as long as the latest. A
    server that goes away is waited for. Ctrl-C ends the watching, nothing else.

    Example:
      taskq watch /demo
    """
    if invocation.output == "json":
        raise UsageError("watching makes records one after the other: use --output jsonl")
    with invocation.client() as client, _display(invocation.output) as show:
        pace, history, began = RateMeter(), History(client, path), time.monotonic()
        while True:
            looked_at = time.monotonic()
            try:
                progress = _look(client, path, pace, history, began)
            except Unavailable as error:
                click.echo(f"{one_line(str(error))}; trying again", err=True)
            else:
                show(progress)
                if not progress.overview.status.unfinished:
                    return
            time.sleep(max(0.0, looked_at + interval - time.monotonic()))


def _look(client: Client, path: str, pace: RateMeter, history: History, began: float) -> Progress:
    overview = look(client, path)
    status, now = overview.status, time.monotonic()
    pace.add(now, status.total - status.unfinished)
    per_s, eta_s = pace.per_s(), pace.eta_s(status.unfinished)
    usual = history.per_s(status) if pace.counted() < ENOUGH else None
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
