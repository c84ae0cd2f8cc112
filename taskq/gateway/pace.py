"""The pace of a gateway's queues: when refused clients should come again.

Ahead of a refused client are all clients in the queue, and all that were refused before and have
yet to come. The rate at which the queue has drained lately says how long they take. So each client
is asked to come when its turn is likely, with half of the queue left: nothing idles if clients come
a little late, and there is room if they come early. The turns follow one another, so they need no
random spread. (This is a virtual queue, such as numbered tickets at a counter: a turn is a number,
not a time, so that a better known rate corrects it.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

#: The rate assumed before one was measured; a client that then comes too early gets a better
#: answer.
FIRST_PER_S: Final = 1_000.0
LEAST_PER_S: Final = 20.0
#: Least and most seconds over which the rate is measured.
FRESH_S: Final = (0.5, 2.0)
#: Seconds without a refusal after which the rate is measured again.
APART_S: Final = 2.0
LONGEST_S: Final = 120.0


class Pace:
    """The pace of one queue. now: returns seconds of a clock that only rises."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._per_s = FIRST_PER_S
        self._last_at = -APART_S
        # The start of this measurement and of the next: a time, and the number served by then.
        self._since: tuple[float, int] = (0.0, 0)
        self._next: tuple[float, int] = (0.0, 0)
        # The last turn given: how many clients will have been served by then.
        self._turn = 0.0

    def wait_s(self, waiting: int, served: int, most: int) -> float:
        """Return the seconds for which a client should stay away.

        waiting: clients in the queue. served: clients that have left the queue since the start.
        most: clients that can be away at a time, however often each asks.
        """
        now = self._now()
        if now - self._last_at >= APART_S:
            self._since = self._next = (now, served)
        if now - self._last_at >= LONGEST_S:
            # All expected clients have come, or never will.
            self._turn = 0.0
        self._last_at = now
        self._measure(now, served)
        first = served + waiting / 2
        self._turn = max(first, min(self._turn, first + most)) + 1
        return max(0.01, round(min((self._turn - served) / self._per_s, LONGEST_S), 2))

    def _measure(self, now: float, served: int) -> None:
        least, most = FRESH_S
        since, then = self._since
        if now - since >= least:
            self._per_s = max((served - then) / (now - since), LEAST_PER_S)
        if now - self._next[0] >= most / 2:
            self._since, self._next = self._next, (now, served)
