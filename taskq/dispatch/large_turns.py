"""Turns of large requests: one at a time, each followed by a rest in proportion to its cost.

However much one client asks for, large requests take a bounded share of a shared resource: a
connection, the time of an asyncio loop. A small request waits for one large request at most.

Pure: times are seconds of any clock that rises.
"""

from __future__ import annotations


class LargeTurns:
    """Says when the next large request may begin."""

    def __init__(self, rest_factor: float) -> None:
        """rest_factor: the length of a rest, in durations of its turn."""
        self._rest_factor = rest_factor
        self._began_at = self._next_at = 0.0
        #: Whether a turn is under way.
        self.under_way = False

    def begin(self, now: float) -> None:
        """Begin a turn."""
        self.under_way = True
        self._began_at = now

    def end(self, now: float, times: float = 1.0) -> None:
        """End the turn, and rest `times` as long as usual."""
        self.under_way = False
        self._next_at = now + self._rest_factor * times * (now - self._began_at)

    def wait_s(self, now: float) -> float:
        """Return the seconds that are left of the last rest."""
        return max(0.0, self._next_at - now)

    def cut_short(self) -> None:
        """End the rest now."""
        self._next_at = 0.0
