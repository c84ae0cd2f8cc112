"""How long to wait before asking again, and how much to ask for."""

from __future__ import annotations

from typing import Callable, Optional

from taskq_agent.protocol import MAX_CLAIM

_WEIGHT_OF_NEWEST = 0.2
_SHORTEST_RUN_S = 1e-6


class Backoff:
    """Draws waiting times: each between `first_s` and a ceiling that doubles up to `last_s`.

    Random over nearly the whole range, so that agents that failed together do not return
    together ("full jitter": M. Brooker, Exponential Backoff And Jitter, 2015).
    """

    def __init__(self, first_s: float, last_s: float, uniform: Callable[[], float]) -> None:
        self._first_s = first_s
        self._last_s = last_s
        self._uniform = uniform
        self._ceiling_s = first_s

    def reset(self) -> None:
        """Start again from the shortest time."""
        self._ceiling_s = self._first_s

    def draw(self) -> float:
        """Return the next waiting time in seconds."""
        self._ceiling_s = min(self._last_s, 2 * self._ceiling_s)
        return self._first_s + self._uniform() * (self._ceiling_s - self._first_s)


class RunTimes:
    """Learns how long tasks take, so that very short ones can be claimed ahead."""

    def __init__(self, ahead_s: float) -> None:
        self._ahead_s = ahead_s
        self._run_s: Optional[float] = None

    def learn(self, run_s: float) -> None:
        """Take in the run time of a task that was done.

        Of those that were done only: where everything fails at once nothing must be hoarded.
        """
        if self._run_s is None:
            self._run_s = run_s
        else:
            self._run_s += _WEIGHT_OF_NEWEST * (run_s - self._run_s)

    def ahead(self, quick_slots: int) -> int:
        """Return how many tasks to hold beside those that run.

        brisk_slots: the slots that do not sit on a long task at this moment.
        """
        if self._run_s is None or self._run_s >= self._ahead_s / 2:
            return 0
        return min(MAX_CLAIM, int(quick_slots * self._ahead_s / max(self._run_s, _SHORTEST_RUN_S)))
