"""Progress of what is done in chunks, on standard error: a bar on a terminal, else lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

import click

from taskq.campaign.bulk import BulkProgress
from taskq.model.words import rate
from taskq_cli.display import render
from taskq_cli.display.rate_meter import RateMeter

LINE_INTERVAL_S: Final = 10.0
WINDOW_S: Final = 10.0

#: Shows how much of how many is dealt with, and what has come of it.
ShowChunk: TypeAlias = Callable[[int, int, str], None]


@contextmanager
def chunk_display(title: str) -> Iterator[ShowChunk]:
    """Yield a function that shows progress; off a terminal, a line every 10 s."""
    meter = RateMeter(WINDOW_S)
    meter.add(time.monotonic(), 0)

    def text(done: int, of: int, outcome: str) -> str:
        meter.add(time.monotonic(), done)
        per_s = meter.per_s()
        pace = f"  {rate(per_s)}" if per_s else ""
        return f"{title}  {done:,} of {of:,}  {outcome}{pace}"

    if render.can_redraw(sys.stderr):
        with render.live(sys.stderr, keep=False) as draw:
            yield lambda done, of, outcome: draw(
                render.progress(min(1.0, done / of) if of else None, text(done, of, outcome))
            )
        return
    next_at = time.monotonic() + LINE_INTERVAL_S

    def line(done: int, of: int, outcome: str) -> None:
        nonlocal next_at
        shown = text(done, of, outcome)
        if time.monotonic() >= next_at:
            next_at = time.monotonic() + LINE_INTERVAL_S
            click.echo(shown, err=True)

    yield line


@contextmanager
def bulk_display(
    title: str, note: Callable[[BulkProgress], None]
) -> Iterator[Callable[[BulkProgress], None]]:
    """Yield a function that shows the progress of a bulk action, and passes it to `note`."""
    with chunk_display(title) as show:

        def both(one: BulkProgress) -> None:
            note(one)
            show(one.looked, one.of, f"{one.matched:,} match")

        yield both
