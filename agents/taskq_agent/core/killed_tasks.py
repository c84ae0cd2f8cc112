"""Tasks that SIGTERM has ended although their agent did not send it.

A batch system that ends a job may signal all its processes at once, so a payload can be gone a
moment before the agent gets its own signal. Such an end says nothing about the task.
"""

from __future__ import annotations

import math
from typing import Dict, List, Tuple

from taskq_agent.core.events import TaskEnded

_PATIENCE_S = 1.0
# A shell reports a command's SIGTERM as the latter.
_BY_SIGTERM = ("signal-SIGTERM", "exit-143")


def is_by_sigterm(event: TaskEnded) -> bool:
    """Return whether SIGTERM ended the payload."""
    return event.ended.error_class in _BY_SIGTERM


class KilledTasks:
    """Holds ends for a second, until it is clear whether the agent itself gets a signal too."""

    def __init__(self) -> None:
        self._held: Dict[int, Tuple[TaskEnded, float]] = {}

    def hold(self, event: TaskEnded, now: float) -> None:
        """Keep an end for `take`: an end by SIGTERM for a second, other ends for no time."""
        self._held[event.slot] = (event, now + _PATIENCE_S * is_by_sigterm(event))

    def take(self, now: float) -> List[TaskEnded]:
        """Remove and return the ends that have been held long enough."""
        ends = [event for event, until in self._held.values() if now >= until]
        for event in ends:
            del self._held[event.slot]
        return ends

    def next_at(self) -> float:
        """Return when an end will have been held long enough; infinity if none is held."""
        return min((until for _, until in self._held.values()), default=math.inf)
