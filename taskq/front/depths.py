"""Depths of the lists of a front, as a gateway knows them: which it asks.

Pure: times are monotonic seconds.
"""

from __future__ import annotations

from typing import Final

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
        due_at = min((wanted.due_at for wanted in self._wanted.values()), default=None)
        return None if due_at is None else max(0.0, due_at - now)

    def due(self, now: float) -> list[int]:
        """Return the campaigns whose lists should be looked at now; each is due again later."""
        due: list[int] = []
        for campaign, wanted in list(self._wanted.items()):
            if now - wanted.asked_at > WANTED_S:
                del self._wanted[campaign]
            elif wanted.due_at <= now and len(due) < MOST_PROBED:
                wanted.due_at = now + wanted.pause_s
                wanted.pause_s = min(2 * wanted.pause_s, LONGEST_PROBE_S)
                due.append(campaign)
        return due

    def clear(self) -> None:
        """Forget all depths, since the lists have been replaced; look at wanted ones soon."""
        self._depths.clear()
        for wanted in self._wanted.values():
            wanted.pause_s = PROBE_S
