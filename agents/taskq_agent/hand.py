"""What an agent has in hand: tasks that wait for a slot, tasks that run, reports to deliver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Iterable, List, Optional, Tuple

from taskq_agent.protocol import MAX_RESULT_BYTES, Campaign, Held, Report, Task
from taskq_agent.reports import fence

_MAX_REPORTS = 1_000
_MAX_REPORT_BYTES = 16 * MAX_RESULT_BYTES


@dataclass
class Queued:
    """A task that was claimed and has not begun."""

    task: Task
    campaign: Campaign
    since: float


@dataclass
class Running:
    """A task in a slot.

    void: its lease is gone; nobody wants to hear how it ends. told_at: when it was last told
    to stop.
    """

    held: Held
    key: str
    since: float
    wait_s: float
    void: bool = False
    told_at: Optional[float] = None


class Hand:
    """The attempts of an agent, each in exactly one of `queue`, `running` and `reports`.

    reports: all without a verdict, oldest first, with the length of their lines. Those of an
    earlier process come first; they are not held by this one's session.
    """

    def __init__(self, slots: int, inherited: Iterable[Tuple[Report, int]] = ()) -> None:
        self.queue: Dict[Held, Queued] = {}
        self.running: Dict[int, Running] = {}
        self.reports: Dict[Held, Tuple[Report, int]] = {
            fence(report): (report, size) for report, size in inherited
        }
        self.idle: List[int] = list(reversed(range(slots)))
        self._slots = slots
        self._inherited = frozenset(self.reports)

    def free(self) -> int:
        """Return how many slots have nothing to do and nothing waiting for them."""
        return self._slots - self.tasks()

    def tasks(self) -> int:
        """Return how many tasks run or wait for a slot."""
        return len(self.running) + len(self.queue)

    def is_empty(self) -> bool:
        """Tell whether nothing is left to run or to deliver."""
        return not (self.running or self.queue or self.reports)

    def held(self) -> Tuple[Held, ...]:
        """Return the fences of all attempts that the session is to keep.

        Those whose reports are under way are among them: the queue has yet to hear of their
        end.
        """
        return (
            *self.queue,
            *(running.held for running in self.running.values() if not running.void),
            *(held for held in self.reports if held not in self._inherited),
        )

    def first_reports(self) -> Tuple[Report, ...]:
        """Return the oldest reports, as many as one exchange carries."""
        chosen: List[Report] = []
        total = 0
        for report, size in self.reports.values():
            total += size
            if chosen and (len(chosen) == _MAX_REPORTS or total > _MAX_REPORT_BYTES):
                break
            chosen.append(report)
        return tuple(chosen)
