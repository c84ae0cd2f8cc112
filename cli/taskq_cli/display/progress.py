"""Progress of long work on standard error: a bar on a terminal, elsewhere a line every 10 s."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

import click

from taskq.model.words import duration, rate
from taskq_cli.display import render

LINE_INTERVAL_S: Final = 10.0
WINDOW_S: Final = 10.0

#: Shows the share of the work that is done, None if unknown, and a text.
ShowProgress: TypeAlias = Callable[["float | None", str], None]
#: Shows how many are done, of how many, and the outcome so far.
ShowChunk: TypeAlias = Callable[[int, int, str], None]


class RateMeter:
    """The rate at which a count grew within the window, or since the first count."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, now: float, count: int) -> None:
        """Record a count; `now` in seconds of a monotonic clock.

        A lower count than the last one, such as after a retry, restarts the measurement.
        """
        if self._seen and count < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now, count))
        while len(self._seen) > 2 and self._seen[1][0] <= now - self._window_s:  # noqa: PLR2004  # two make a rate
            self._seen.popleft()

    def per_s(self) -> float | None:
        """Return the rate; None before two counts are recorded."""
        if not self._seen:
            return None
        (began, first), (now, last) = self._seen[0], self._seen[-1]
        return (last - first) / (now - began) if now > began else None


@contextmanager
def progress_display() -> Iterator[ShowProgress]:
    """Yield a function that shows progress: on a terminal a bar, elsewhere a line every 10 s."""
    if render.can_redraw(sys.stderr):
        with render.live(sys.stderr, keep=False) as draw:
            yield lambda share, text: draw(render.progress(share, text))
        return
    next_at = time.monotonic() + LINE_INTERVAL_S

    def line(share: float | None, text: str) -> None:
        nonlocal next_at
        if time.monotonic() >= next_at:
            next_at = time.monotonic() + LINE_INTERVAL_S
            click.echo(text if share is None else f"{share:.0%}  {text}", err=True)

    yield line


class ProgressText:
    """Text of progress, with the rate of the last ten seconds and the remaining time."""

    def __init__(self) -> None:
        self._meter = RateMeter(WINDOW_S)
        self._meter.add(time.monotonic(), 0)

    def of(self, done: int, share: float | None, *parts: str) -> str:
        """Return the parts with the rate of `done`, and the time until the share is 1."""
        self._meter.add(time.monotonic(), done)
        per_s = self._meter.per_s()
        if not per_s:
            return "  ".join(filter(None, parts))
        eta = f"ETA {duration(done * (1 - share) / share / per_s)}" if share else ""
        return "  ".join(filter(None, (*parts, rate(per_s), eta)))


@contextmanager
def chunk_display(title: str) -> Iterator[ShowChunk]:
    """Yield a function that shows the progress of work in chunks."""
    text = ProgressText()
    with progress_display() as show:

        def chunk(done: int, of: int, outcome: str) -> None:
            share = min(1.0, done / of) if of else None
            show(share, text.of(done, share, title, f"{done:,} of {of:,}", outcome))

        yield chunk
