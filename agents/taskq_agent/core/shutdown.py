"""Shutdown of an agent: no more tasks, then no more running ones, then no more reports.

`KilledTasks` has the tasks that a signal ended although their agent did not send it. A batch system
that ends or warns a job may signal all its processes at once, so a payload can be gone a moment
before the agent gets its own signal. Such an end says nothing about the task.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple, Union

from taskq_agent.core.events import BatchMoved, TaskEnded
from taskq_agent.handlers.base import Ended
from taskq_agent.handlers.exits import BY_ENDING_SIGNAL, NO_OUTCOME
from taskq_agent.protocol import SessionEnd
from taskq_agent.settings import AgentSettings
from taskq_agent.wire import fitted

#: Most seconds between signals that belong together: a batch system sends one to each process, and
#: its job's script may send another.
PATIENCE_S = 1.0


#: The end of the tasks of a slot, or of some.
SlotEvent = Union[TaskEnded, BatchMoved]


def is_by_ending_signal(ended: Ended) -> bool:
    """Return whether a signal that ends or warns jobs may have ended the payload.

    A program for many tasks that handles the signal may exit with 0, and leave tasks out.
    """
    return ended.error_class in BY_ENDING_SIGNAL or ended.error_class == NO_OUTCOME


def _may_be_by_signal(event: SlotEvent) -> bool:
    if isinstance(event, TaskEnded):
        return is_by_ending_signal(event.ended)
    return any(is_by_ending_signal(ended) for _, ended in event.ends)


class KilledTasks:
    """Holds ends for a second, until it is clear whether the agent itself gets a signal too."""

    def __init__(self) -> None:
        self._held: Dict[int, List[Tuple[SlotEvent, float]]] = {}

    def hold(self, event: SlotEvent, now: float) -> None:
        """Keep an end for `take`: an end by such a signal for a second, other ends for no time.

        What follows in the slot waits with it.
        """
        until = now + PATIENCE_S * _may_be_by_signal(event)
        self._held.setdefault(event.slot, []).append((event, until))

    def take(self, now: float) -> List[SlotEvent]:
        """Remove and return the ends that have been held long enough."""
        ends = []
        for slot, events in [*self._held.items()]:
            while events and now >= events[0][1]:
                ends.append(events.pop(0)[0])
            if not events:
                del self._held[slot]
        return ends

    def next_at(self) -> float:
        """Return when an end will have been held long enough; infinity if none is held."""
        return min((events[0][1] for events in self._held.values()), default=math.inf)


@dataclass
class Shutdown:
    """A shutdown in progress; its time is bounded whatever hangs.

    stop_at: when tasks that still run get the order to stop. idle_at: since when no task runs.
    refused: the queue refuses this agent, so nothing more is sent.
    """

    settings: AgentSettings
    reason: str
    code: int
    stop_at: float
    refused: bool
    idle_at: Optional[float] = None

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

    def may_close(self, undelivered: int) -> bool:
        """Return whether the session may be closed, which hands out at once what it still holds.

        What is in the spool is for the next agent to report, as long as the lease is valid.
        """
        return self.idle_at is not None and not (undelivered and self.settings.spool_dir)

    def is_over(self, now: float) -> bool:
        """Return whether no time, or no use, is left for delivering reports."""
        if self.idle_at is None:
            return False
        return self.refused or now >= self.idle_at + self.settings.farewell_s

    def end(self, attempts: int) -> SessionEnd:
        """Return what the queue gets to know of it. attempts: how many ran in this process."""
        return fitted(SessionEnd(self.reason, self.code, attempts))

    def due_times(self) -> List[float]:
        """Return the times at which something is due."""
        if self.idle_at is None:
            return [self.stop_at, self._give_up_at()]
        return [self.idle_at + self.settings.farewell_s]

    def _give_up_at(self) -> float:
        return self.stop_at + self.settings.stop_s
