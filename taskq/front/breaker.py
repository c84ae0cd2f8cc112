"""When a gateway asks the front: a circuit breaker for all of it, and the depths of its lists.

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


#: Seconds between looks at an empty list that is asked for: at first, and later.
PROBE_S: Final = 0.1
LONGEST_PROBE_S: Final = 1.0
#: ... until nobody has asked for it for this many seconds.
WANTED_S: Final = 5.0
MOST_PROBED: Final = 100
_MOST_WANTED: Final = 10_000


class _Wanted:
    """A campaign whose list was found empty by a claim."""

    __slots__ = ("asked_at", "due_at", "pause_s")

    def __init__(self, now: float) -> None:
        self.asked_at = self.due_at = now
        self.pause_s = PROBE_S


class Depths:
    """Depths of the lists as a gateway knows them, and the empty lists to look at again."""

    def __init__(self) -> None:
        self._depths: dict[int, int] = {}
        self._wanted: dict[int, _Wanted] = {}

    @property
    def total(self) -> int:
        """Entries in all lists, as of the last look at each."""
        return sum(self._depths.values())

    def __contains__(self, campaign: int) -> bool:
        return campaign in self._depths

    def want(self, campaign: int, now: float) -> bool:
        """Note that a claim found a campaign's list empty; return whether that is new."""
        wanted = self._wanted.get(campaign)
        if wanted is not None:
            wanted.asked_at = now
        elif len(self._wanted) < _MOST_WANTED:
            self._wanted[campaign] = _Wanted(now)
            return True
        return False

    def note(self, campaign: int, left: int) -> None:
        """Note how many entries a list has."""
        if left > 0:
            self._depths[campaign] = left
            self._wanted.pop(campaign, None)
        else:
            self._depths.pop(campaign, None)

    def wait_s(self, now: float) -> float | None:
        """Return how long to wait before looking at lists again; None if none is wanted."""
        due_at = min((one.due_at for one in self._wanted.values()), default=None)
        return None if due_at is None else max(0.0, due_at - now)

    def due(self, now: float) -> list[int]:
        """Return the campaigns whose lists should be looked at now; each is due again later."""
        due: list[int] = []
        for campaign, one in list(self._wanted.items()):
            if now - one.asked_at > WANTED_S:
                del self._wanted[campaign]
            elif one.due_at <= now and len(due) < MOST_PROBED:
                one.due_at = now + one.pause_s
                one.pause_s = min(2 * one.pause_s, LONGEST_PROBE_S)
                due.append(campaign)
        return due

    def clear(self) -> None:
        """Forget all depths, since the lists have been replaced; look at wanted ones soon."""
        self._depths.clear()
        for one in self._wanted.values():
            one.pause_s = PROBE_S
