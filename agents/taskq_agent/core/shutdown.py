"""Shutdown of an agent: no more tasks, then no more running ones, then no more reports."""

from __future__ import annotations

from typing import List, Optional

from taskq_agent.settings import AgentSettings


class Shutdown:
    """A shutdown in progress; its time is bounded whatever hangs.

    stop_at: when tasks that still run get the order to stop. idle_at: since when no task runs.
    refused: the queue refuses this agent, so nothing more is sent.
    """

    def __init__(
        self, settings: AgentSettings, reason: str, code: int, stop_at: float, *, refused: bool
    ) -> None:
        self.reason = reason
        self.code = code
        self.stop_at = stop_at
        self.refused = refused
        self.idle_at: Optional[float] = None
        self._settings = settings

    def hasten(self, reason: str, code: int, stop_at: float, *, refused: bool) -> None:
        """Add another reason to shut down: the earliest time and the first error count."""
        self.stop_at = min(self.stop_at, stop_at)
        self.refused = self.refused or refused
        if self.code == 0 and code != 0:
            self.reason, self.code = reason, code

    def becomes_idle(self, running: int, now: float) -> bool:
        """Return True once, when no task runs any more; tasks that do not stop are given up."""
        if self.idle_at is None and (running == 0 or now >= self._give_up_at()):
            self.idle_at = now
            return True
        return False

    def is_over(self, now: float) -> bool:
        """Return whether no time, or no use, is left for delivering reports."""
        if self.idle_at is None:
            return False
        return self.refused or now >= self.idle_at + self._settings.farewell_s

    def due_times(self) -> List[float]:
        """Return the times at which something is due."""
        if self.idle_at is None:
            return [self.stop_at, self._give_up_at()]
        return [self.idle_at + self._settings.farewell_s]

    def _give_up_at(self) -> float:
        return self.stop_at + self._settings.stop_s
