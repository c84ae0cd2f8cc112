"""Progress of seeding on standard error: a bar on a terminal, elsewhere a line every 10 s."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

from taskq.ingest.seeding import SeedCount
from taskq.model.words import counted, duration, rate
from taskq_cli.display import render
from taskq_cli.display.rate_meter import RateMeter
from taskq_cli.seeder import Show

LINE_INTERVAL_S: Final = 10.0
WINDOW_S: Final = 10.0


@contextmanager
def seed_display(path: str) -> Iterator[Show]:
    """Yield a function that shows the progress of seeding."""
    if render.can_redraw(sys.stderr):
        with render.live(sys.stderr, keep=False) as draw:
            bar = _Text(path)
            yield lambda count, part: draw(render.progress(part, bar.of(count, part)))
    else:
        yield _Lines(path).show


class _Text:
    def __init__(self, path: str) -> None:
        self._path = path
        self._meter = RateMeter(WINDOW_S)
        self._meter.add(time.monotonic(), 0)

    def of(self, count: SeedCount, part: float | None) -> str:
        self._meter.add(time.monotonic(), count.read)
        per_s = self._meter.per_s()
        parts = [f"seeding {self._path}", f"{count.added:,} added"]
        parts += [f"{count.known:,} known before"] if count.known else []
        parts += [f"{count.bad:,} bad"] if count.bad else []
        parts += [counted(count.conflicts, "conflict")] if count.conflicts else []
        parts += [rate(per_s)] if per_s else []
        if part and per_s:
            parts.append(f"ETA {duration(count.read * (1 - part) / part / per_s)}")
        return "  ".join(parts)


class _Lines:
    def __init__(self, path: str) -> None:
        self._text = _Text(path)
        self._next_at = time.monotonic() + LINE_INTERVAL_S

    def show(self, count: SeedCount, part: float | None) -> None:
        text = self._text.of(count, part)
        if time.monotonic() >= self._next_at:
            self._next_at = time.monotonic() + LINE_INTERVAL_S
            percent = "" if part is None else f"{part:.0%}  "
            click.echo(f"{percent}{text}", err=True)
