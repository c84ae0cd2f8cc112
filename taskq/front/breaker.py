"""When to leave a front alone that does not work.

A circuit breaker (Nygard, Release It!, 2007): closed, everybody uses the front; after a failure it
is open and nobody does; after a pause it is half open while one probe finds out.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 2.0
#: Who fails sooner than this after it was let in again has not recovered: the pauses grow on.
STEADY_S: Final = 2.0


class State(Enum):
    """The states of a breaker."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half open"


class Breaker:
    """Open at first, until a probe has succeeded. All times are monotonic seconds."""

    def __init__(self, chance: Callable[[], float]) -> None:
        """chance: returns a number from 0 to 1, by which pauses of several users drift apart."""
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
        """Say whether the caller may probe now; it must tell how that ended."""
        if self.state is not State.OPEN or now < self._due_at:
            return False
        self.state = State.HALF_OPEN
        return True

    def succeed(self, now: float) -> bool:
        """Note that a probe succeeded; say whether that has closed the breaker."""
        if self.state is not State.HALF_OPEN:
            return False
        self.state = State.CLOSED
        self._closed_at = now
        return True

    def fail(self, now: float, began: float) -> bool:
        """Note a failure; say whether that has opened the breaker.

        began: when what failed was begun. If that was before the breaker closed last, it says
        nothing of the front as it is now.
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
