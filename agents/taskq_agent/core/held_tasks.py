"""What an agent has in hand: tasks that wait for a slot, tasks that run, reports to deliver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Iterable, List, Optional, Set, Tuple

from taskq_agent.core.reports import fence
from taskq_agent.protocol import MAX_RESULT_BYTES, STOP, CampaignTerms, Held, Report, Task

_REPEAT_STOP_S = 1.0
_MAX_REPORTS = 1_000
_MAX_REPORT_BYTES = 16 * MAX_RESULT_BYTES


@dataclass
class QueuedTask:
    """A task that was claimed and has not begun."""

    task: Task
    campaign: CampaignTerms
    since: float

    @property
    def stops_on_disconnect(self) -> bool:
        """Whether it is not to run when nothing is heard of the queue."""
        return self.campaign.on_disconnect == STOP


@dataclass
class RunningTask:
    """A task in a slot.

    revision, path: of its campaign. stops_unheard: as for `Queued`. void: its lease is gone; nobody
    wants to hear how it ends. unwanted: it is to stop and goes back. told_at: when it was last told
    to stop.
    """

    held: Held
    key: str
    attempt: int
    revision: int
    path: str
    since: float
    wait_s: float
    stops_on_disconnect: bool = False
    revoked: bool = False
    must_hand_back: bool = False
    stop_sent_at: Optional[float] = None


class HeldTasks:
    """The attempts of an agent, each in exactly one of `queue`, `running` and `reports`.

    reports: all without a verdict, oldest first, with the length of their lines. Those of an
    earlier process, `inherited`, come first; they are not held by this one's session.
    """

    def __init__(self, slots: int, inherited: Iterable[Tuple[Report, int]] = ()) -> None:
        self.queue: Dict[Held, QueuedTask] = {}
        self.running: Dict[int, RunningTask] = {}
        self.reports: Dict[Held, Tuple[Report, int]] = {
            fence(report): (report, size) for report, size in inherited
        }
        self.idle: List[int] = list(reversed(range(slots)))
        self.inherited = frozenset(self.reports)
        self._slots = slots

    def free(self) -> int:
        """Return how many slots have nothing to do and nothing waiting for them."""
        return self._slots - self.tasks()

    def tasks(self) -> int:
        """Return how many tasks run or wait for a slot."""
        return len(self.running) + len(self.queue)

    def campaigns(self) -> Set[int]:
        """Return the campaigns of these tasks."""
        running = {running.held.campaign for running in self.running.values()}
        return running.union(held.campaign for held in self.queue)

    def is_empty(self) -> bool:
        """Tell whether nothing is left to run or to deliver."""
        return not (self.running or self.queue or self.reports)

    def has(self, held: Held) -> bool:
        """Tell whether an attempt is in hand already: what is leased ahead may be given twice."""
        return (
            held in self.queue
            or held in self.reports
            or any(running.held == held for running in self.running.values())
        )

    def slots_to_stop(self, now: float, *, all_stop: bool) -> List[int]:
        """Return the slots that are to be told to stop now.

        They are told again now and then: the first word may have come before the payload was
        there.
        """
        slots = []
        for slot, running in self.running.items():
            if (all_stop or running.revoked or running.must_hand_back) and (
                running.stop_sent_at is None or now - running.stop_sent_at >= _REPEAT_STOP_S
            ):
                running.stop_sent_at = now
                slots.append(slot)
        return slots

    def give_up_disconnected(self) -> Tuple[List[Task], List[RunningTask]]:
        """Give up what is not to run while nothing is heard; return it, not begun and begun."""
        queued = [held for held, it in self.queue.items() if it.stops_on_disconnect]
        not_begun = [self.queue.pop(held).task for held in queued]
        begun = [
            it for it in self.running.values() if it.stops_on_disconnect and not it.must_hand_back
        ]
        for running in begun:
            running.must_hand_back = True
        return not_begun, begun

    def held(self) -> Tuple[Held, ...]:
        """Return the fences of all attempts that the session is to keep.

        Those whose reports are under way are among them: the queue has yet to hear of their
        end.
        """
        return (
            *self.queue,
            *(running.held for running in self.running.values() if not running.revoked),
            *(held for held in self.reports if held not in self.inherited),
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
