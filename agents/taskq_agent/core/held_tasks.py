"""Tasks that an agent holds: waiting for a slot, running, or with a report to deliver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Iterable, Iterator, List, Optional, Set, Tuple

from taskq_agent.core.reports import fence
from taskq_agent.protocol import MAX_RESULT_BYTES, STOP, CampaignTerms, Held, Report, Task

_REPEAT_STOP_S = 1.0
_MAX_REPORTS = 1_000
_MAX_REPORT_BYTES = 16 * MAX_RESULT_BYTES


@dataclass
class QueuedTask:
    """A claimed task that has not begun."""

    task: Task
    campaign: CampaignTerms
    since: float

    @property
    def stops_on_disconnect(self) -> bool:
        """Whether the task must not run once the session must have expired unheard."""
        return self.campaign.on_disconnect == STOP


@dataclass
class RunningTask:
    """A task in a slot.

    revoked: its lease is no longer valid, so its end is not reported. must_hand_back: it must stop
    and goes back to the queue. stop_sent_at: when its slot last got the order to stop.
    out_of_time: the order came because the agent's time was up.
    """

    held: Held
    queued: QueuedTask
    since: float
    wait_s: float
    revoked: bool = False
    must_hand_back: bool = False
    stop_sent_at: Optional[float] = None
    out_of_time: bool = False


class HeldTasks:
    """The attempts of an agent, each in one of `queue`, `running`, `behind` and `reports`.

    behind: by slot, the short calls that the slot runs after the running one, in order.

    reports: all reports without a verdict, oldest first, with the lengths of their lines. Those of
    an earlier process, `inherited`, come first; the session of this process does not hold them.
    """

    def __init__(self, slots: int, inherited: Iterable[Tuple[Report, int]]) -> None:
        self.queue: Dict[Held, QueuedTask] = {}
        self.running: Dict[int, RunningTask] = {}
        self.behind: Dict[int, Dict[Held, RunningTask]] = {}
        self.reports: Dict[Held, Tuple[Report, int]] = {
            fence(report): (report, size) for report, size in inherited
        }
        self.idle: List[int] = list(reversed(range(slots)))
        self.inherited = frozenset(self.reports)
        self._slots = slots

    def free(self) -> int:
        """Return the number of slots without a running or queued task."""
        return self._slots - self.tasks()

    def tasks(self) -> int:
        """Return how many tasks run or wait for a slot."""
        return len(self.running) + len(self.queue) + sum(map(len, self.behind.values()))

    def in_slots(self) -> Iterator[RunningTask]:
        """Iterate over the attempts that run, and those behind them."""
        yield from self.running.values()
        for some in self.behind.values():
            yield from some.values()

    def leave(self, slot: int, now: float) -> RunningTask:
        """Remove and return the attempt that has run in a slot; the next one begins."""
        running = self.running.pop(slot)
        behind = self.behind.get(slot)
        if behind:
            following = behind.pop(next(iter(behind)))
            following.since, following.wait_s = now, following.wait_s + now - following.since
            self.running[slot] = following
        if not behind:
            self.behind.pop(slot, None)
        if slot not in self.running:
            self.idle.append(slot)
        return running

    def take_back(self, slot: int, count: int) -> None:
        """Put the last attempts of a slot, which have not begun, back to the head of the queue."""
        attempts = [self.running.pop(slot, None), *self.behind.pop(slot, {}).values()]
        kept, back = attempts[: len(attempts) - count], attempts[len(attempts) - count :]
        returned = {one.held: one.queued for one in back if one and not one.revoked}
        self.queue = {**returned, **self.queue}
        for number, one in enumerate(kept):
            if one is not None and number == 0:
                self.running[slot] = one
            elif one is not None:
                self.behind.setdefault(slot, {})[one.held] = one
        if slot not in self.running:
            self.idle.append(slot)

    def campaigns(self) -> Set[int]:
        """Return the campaigns of these tasks."""
        running = {running.held.campaign for running in self.in_slots()}
        return running.union(held.campaign for held in self.queue)

    def is_empty(self) -> bool:
        """Return whether nothing is left to run or to deliver."""
        return not (self.running or self.queue or self.reports)

    def has(self, held: Held) -> bool:
        """Return whether an attempt is held already: a task leased ahead may come twice."""
        return (
            held in self.queue
            or held in self.reports
            or any(running.held == held for running in self.running.values())
            or any(held in some for some in self.behind.values())
        )

    def slots_to_stop(self, now: float, *, all_stop: bool, out_of_time: bool) -> List[int]:
        """Return the slots that must get the order to stop now, and note it.

        The order is repeated every second: the first one may precede the start of the payload.
        out_of_time: all stop because the agent's time is up.
        """
        slots = []
        for slot, running in self.running.items():
            if (all_stop or running.revoked or running.must_hand_back) and (
                running.stop_sent_at is None or now - running.stop_sent_at >= _REPEAT_STOP_S
            ):
                if running.stop_sent_at is None:
                    running.out_of_time = out_of_time
                running.stop_sent_at = now
                slots.append(slot)
        return slots

    def give_up_disconnected(self) -> Tuple[List[Task], List[RunningTask]]:
        """Give up tasks that must not run while the queue is unreachable.

        Returns the tasks that have not begun, which are removed, and the running ones, marked to be
        handed back.
        """
        queued = [held for held, it in self.queue.items() if it.stops_on_disconnect]
        not_begun = [self.queue.pop(held).task for held in queued]
        begun = [
            it
            for it in self.running.values()
            if it.queued.stops_on_disconnect and not it.must_hand_back
        ]
        for running in begun:
            running.must_hand_back = True
        return not_begun, begun

    def held(self) -> Tuple[Held, ...]:
        """Return the fences of all attempts that the session must keep.

        They include attempts whose reports are in flight: the queue does not know of their end yet.
        """
        return (
            *self.queue,
            *(running.held for running in self.in_slots() if not running.revoked),
            *(held for held in self.reports if held not in self.inherited),
        )

    def first_reports(self) -> Tuple[Report, ...]:
        """Return the oldest reports, as many as fit into one exchange."""
        chosen: List[Report] = []
        total = 0
        for report, size in self.reports.values():
            total += size
            if chosen and (len(chosen) == _MAX_REPORTS or total > _MAX_REPORT_BYTES):
                break
            chosen.append(report)
        return tuple(chosen)
