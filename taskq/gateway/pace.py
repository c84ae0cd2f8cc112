"""When those who are turned away are to come again: as fast as others are really served.

A queue is full: whoever is turned away now has all those ahead who wait, and all who were turned
away before and are still to come. What has left the queue lately tells how fast that goes. So the
n-th is told to come when it is likely to be its turn; half of the queue is left then, so that
nobody idles if they come a little late, and there is room if they come early. The turns are apart,
so nothing else has to spread them. (A virtual queue, as at a counter where numbers are drawn.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

#: Taken for the rate before anything was measured; who comes too early is told better.
FIRST_PER_S: Final = 1_000.0
LEAST_PER_S: Final = 20.0
#: The rate is that of the last seconds, between these.
FRESH_S: Final = (0.5, 2.0)
#: After so long without anybody turned away the rate is measured anew.
APART_S: Final = 2.0
LONGEST_S: Final = 120.0


class Pace:
    """The pace of one queue. now: returns seconds of a clock that only rises."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._per_s = FIRST_PER_S
        self._last_at = -APART_S
        # Since when the rate is measured, and from when on it will be: moments, and what had been
        # served by then.
        self._since: tuple[float, int] = (0.0, 0)
        self._next: tuple[float, int] = (0.0, 0)
        # The turn that was given last.
        self._turn = 0.0

    def wait_s(self, waiting: int, served: int, most: int) -> float:
        """Return for how long somebody should stay away.

        waiting: how many wait in the queue. served: how many have left it, ever. most: how many can
        be away at a time, however often each asks.
        """
        now = self._now()
        if now - self._last_at >= APART_S:
            self._since = self._next = (now, served)
        self._last_at = now
        self._measure(now, served)
        first_s, all_s = waiting / 2 / self._per_s, most / self._per_s
        self._turn = max(now + first_s, min(self._turn, now + first_s + all_s)) + 1 / self._per_s
        return max(0.01, round(min(self._turn - now, LONGEST_S), 2))

    def _measure(self, now: float, served: int) -> None:
        least, most = FRESH_S
        since, then = self._since
        if now - since >= least:
            self._per_s = max((served - then) / (now - since), LEAST_PER_S)
        if now - self._next[0] >= most / 2:
            self._since, self._next = self._next, (now, served)
