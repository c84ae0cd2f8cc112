"""Waiting times between retries, and run times that decide how many tasks to claim ahead."""

from __future__ import annotations

from typing import Callable, Optional

from taskq_agent.protocol import MAX_CLAIM

_WEIGHT_OF_NEWEST = 0.2
_SHORTEST_RUN_S = 1e-6


class Backoff:
    """Draws waiting times: each between `first_s` and a ceiling that doubles up to `last_s`.

    The draw is random over nearly the whole range, so that agents that failed together do not retry
    together ("full jitter": M. Brooker, Exponential Backoff And Jitter, 2015).
    """

    def __init__(self, first_s: float, last_s: float, uniform: Callable[[], float]) -> None:
        self._first_s = first_s
        self._last_s = last_s
        self._uniform = uniform
        self._ceiling_s = first_s

    def reset(self) -> None:
        """Reset the ceiling to the shortest time."""
        self._ceiling_s = self._first_s

    def draw(self) -> float:
        """Return the next waiting time in seconds."""
        self._ceiling_s = min(self._last_s, 2 * self._ceiling_s)
        return self._first_s + self._uniform() * (self._ceiling_s - self._first_s)


class RunTimes:
    """Estimates how long tasks run, so that very short ones can be claimed ahead."""

    def __init__(self, ahead_s: float) -> None:
        self._ahead_s = ahead_s
        self._run_s: Optional[float] = None

    def learn(self, run_s: float) -> None:
        """Add the run time of a task that succeeded to the moving average.

        Failures do not count: a node where everything fails at once must not hoard tasks.
        """
        if self._run_s is None:
            self._run_s = run_s
        else:
            self._run_s += _WEIGHT_OF_NEWEST * (run_s - self._run_s)

    def ahead(self, quick_slots: int) -> int:
        """Return how many tasks to hold in addition to the running ones.

        quick_slots: the number of slots that no long task occupies at this moment.
        """
        if self._run_s is None or self._run_s >= self._ahead_s / 2:
            return 0
        return min(MAX_CLAIM, int(quick_slots * self._ahead_s / max(self._run_s, _SHORTEST_RUN_S)))
