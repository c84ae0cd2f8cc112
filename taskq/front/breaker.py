"""Circuit breaker: when a gateway asks the front.

Pure: times are monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 2.0
#: A front that fails sooner than this after it was closed has not recovered: pauses grow further.
STEADY_S: Final = 2.0


class State(Enum):
    """The states of a breaker."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half open"


class Breaker:
    """Circuit breaker (Nygard, Release It!, 2007); open at first, until a probe has succeeded.

    Closed: the front is used. Open, after a failure: it is not. Half open, after a pause: one probe
    finds out whether it works again.
    """

    def __init__(self, chance: Callable[[], float]) -> None:
        """chance: returns numbers from 0 to 1, by which the pauses of several users differ."""
        self.state = State.OPEN
        self._chance = chance
        self._pause_s = FIRST_PAUSE_S
        self._due_at = float("-inf")
        self._closed_at = float("-inf")

    @property
    def closed(self) -> bool:
        """Whether the front may be used."""
        return self.state is State.CLOSED

    def wait_s(self, now: float) -> float:
        """Return how long to wait before the next probe."""
        return max(0.0, self._due_at - now)

    def probe(self, now: float) -> bool:
        """Return whether the caller may probe now; if so, it must call `succeed` or `fail`."""
        if self.state is not State.OPEN or now < self._due_at:
            return False
        self.state = State.HALF_OPEN
        return True

    def succeed(self, now: float) -> bool:
        """Note that a probe succeeded; return whether that has closed the breaker."""
        if self.state is not State.HALF_OPEN:
            return False
        self.state = State.CLOSED
        self._closed_at = now
        return True

    def fail(self, now: float, began: float) -> bool:
        """Note a failure; return whether that has opened the breaker.

        began: when the failed operation began. If that was before the breaker closed last, the
        failure says nothing about the front as it is now, and is ignored.
        """
        if self.state is State.OPEN or (self.closed and began < self._closed_at):
            return False
        opened = self.closed
        if opened and now - self._closed_at >= STEADY_S:
            self._pause_s = FIRST_PAUSE_S
        self.state = State.OPEN
        self._due_at = now + self._pause_s * (0.5 + 0.5 * self._chance())
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        return opened
