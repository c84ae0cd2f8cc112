"""Meter of a rate: takes counts at instants, returns the rate and the remaining time."""

from __future__ import annotations

from collections import deque
from typing import Final

WINDOW_S: Final = 60.0


class RateMeter:
    """The rate at which a count grew within the window, or since the first count if later."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, now: float, count: int) -> None:
        """Record a count; `now` in seconds of a monotonic clock.

        A count below the last one, as after a retry, restarts the measurement.
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

    def counted(self) -> int:
        """Return how much the count grew within the window."""
        return self._seen[-1][1] - self._seen[0][1] if self._seen else 0

    def eta_s(self, remaining: int) -> float | None:
        """Return the seconds until `remaining` more are counted; None while the rate is 0."""
        per_s = self.per_s()
        return remaining / per_s if per_s else None
