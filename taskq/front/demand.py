"""Demand for the tasks of a front, and how much is leased ahead for it.

Pure: times are seconds on any clock that only goes forward.
"""

from __future__ import annotations

import math
from typing import Final

#: A list holds what is popped in this many seconds ...
AHEAD_S: Final = 2.0
#: ... at least and at most this many entries.
LEAST: Final = 64
MOST: Final = 20_000
#: Time constants in seconds: a rise counts soon, since an empty list costs each claim; a fall late.
_RISE_S: Final = 0.5
_FALL_S: Final = 4.0
_MOST_RATE: Final = MOST / AHEAD_S
#: The rate assumed for a campaign that is asked for and was not measured yet.
_FIRST_RATE: Final = LEAST / AHEAD_S


class Demand:
    """The rate at which entries of one campaign are popped, learned from how its list shrinks.

    fresh_s: seconds for which an entry may stay in a list. A list is kept so short that it is used
    up well within that time, and is filled only if somebody asked for it within that time.
    """

    def __init__(self, fresh_s: float, now: float) -> None:
        self.rate = 0.0
        self._fresh_s = fresh_s
        self._seen_at = now
        self._asked_at = -math.inf

    def wanted(self, now: float) -> None:
        """Note that a claim found the list empty."""
        self._asked_at = now
        self.rate = max(self.rate, _FIRST_RATE)

    def seen(self, gone: int, now: float, *, emptied: bool) -> None:
        """Update the rate from the number of entries popped since the last call.

        emptied: none is left, so the true demand may be higher.
        """
        passed_s = now - self._seen_at
        if passed_s <= 0:
            return
        self._seen_at = now
        sample = gone / passed_s
        inertia_s = _RISE_S if sample > self.rate else _FALL_S
        learned = self.rate + (sample - self.rate) * -math.expm1(-passed_s / inertia_s)
        if gone:
            self._asked_at = now
            if emptied:
                learned = max(learned, 2 * self.rate, _FIRST_RATE)
        self.rate = min(learned, _MOST_RATE)

    def lasts(self, now: float) -> bool:
        """Return whether anybody asked within `fresh_s`."""
        return now - self._asked_at < self._fresh_s

    def target(self, now: float) -> int:
        """Return how many entries the list should hold; 0 if nobody asks."""
        if not self.lasts(now):
            return 0
        # With little demand, the last entries of a list of the least length would be too old.
        least = min(LEAST, math.ceil(self.rate * self._fresh_s / 2))
        return min(MOST, max(1, least, math.ceil(self.rate * AHEAD_S)))
