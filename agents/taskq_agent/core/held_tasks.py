"""Tasks that an agent holds: waiting for a slot, running, or with a report to deliver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Container, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple

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

    def suits(self, other: QueuedTask) -> bool:
        """Return whether it can begin together with another.

        Retries begin with retries: one that makes a program fail is found among fewer.
        """
        mine, its = self.task, other.task
        return (mine.campaign, mine.revision, mine.attempt) == (
            its.campaign,
            its.revision,
            its.attempt,
        )


@dataclass
class RunningTask:
    """A task in a slot.

    revoked: its lease is no longer valid, so its end is not reported. must_hand_back: it must stop
    and goes back to the queue. stop_sent_at: when its slot last got the order to stop.
    out_of_time: the order came because the agent's time was up. together: it began with all others
    of its slot, see `BatchMoved`. begun: its program says so.
    """

    held: Held
    queued: QueuedTask
    since: float
    wait_s: float
    revoked: bool = False
    must_hand_back: bool = False
    stop_sent_at: Optional[float] = None
    out_of_time: bool = False
    together: bool = False
    begun: bool = False

    @property
    def is_given_up(self) -> bool:
        """Whether its outcome is not wanted any more."""
        return self.revoked or self.must_hand_back


class HeldTasks:
    """The attempts of an agent, each in one of `queue`, `running`, `behind` and `reports`.

    behind: by slot, the short calls that the slot runs after the running one, in order; or the
    tasks that began with it.

    reports: all reports without a verdict, oldest first, with the lengths of their lines. Those of
    an earlier process, `inherited`, come first; the session of this process does not hold them.

    say_begun: slots whose program says which tasks have begun. claims: those of this session, as
    (campaign, lease), that got tasks which begin together; see `Naming`.
    """

    def __init__(
        self,
        slots: int,
        inherited: Iterable[Tuple[Report, int]],
        kept: Optional[Mapping[Held, str]] = None,
    ) -> None:
        self.queue: Dict[Held, QueuedTask] = {}
        self.running: Dict[int, RunningTask] = {}
        self.behind: Dict[int, Dict[Held, RunningTask]] = {}
        self.reports: Dict[Held, Tuple[Report, int]] = {
            fence(report): (report, size) for report, size in inherited
        }
        #: Why reports wait whose results are in the spool, not at the queue; see `kept_results`.
        self.kept: Dict[Held, str] = dict(kept or {})
        self.idle: List[int] = list(reversed(range(slots)))
        self.inherited = frozenset(self.reports)
        self.say_begun: Set[int] = set()
        self.claims: Set[Tuple[int, str]] = set()
        self._most_bytes = _MAX_REPORT_BYTES

    def free(self) -> int:
        """Return the number of slots without a running or queued task."""
        behind = sum(len(some) for slot, some in self.behind.items() if not self.is_batch(slot))
        return len(self.idle) - len(self.queue) - behind

    def is_batch(self, slot: int) -> bool:
        """Return whether the tasks of a slot began together."""
        return slot in self.running and self.running[slot].together

    def tasks(self) -> int:
        """Return how many tasks run or wait for a slot."""
        return len(self.running) + len(self.queue) + sum(map(len, self.behind.values()))

    def in_slots(self) -> Iterator[RunningTask]:
        """Iterate over the attempts that run, and those behind them."""
        yield from self.running.values()
        for some in self.behind.values():
            yield from some.values()

    def leave_together(self, slot: int, held: Held) -> Optional[RunningTask]:
        """Remove and return one of the attempts that run together in a slot, if it is there.

        The slot stays taken: see `free_slot`.
        """
        running, behind = self.running.get(slot), self.behind.get(slot, {})
        if running is None or running.held != held:
            return behind.pop(held, None)
        del self.running[slot]
        if behind:
            self.running[slot] = behind.pop(next(iter(behind)))
        return running

    def free_slot(self, slot: int) -> List[RunningTask]:
        """Let a slot take new tasks; return the attempts that are still in it, which leave."""
        left = [*self.behind.pop(slot, {}).values()]
        self.say_begun.discard(slot)
        if slot in self.running:
            left.insert(0, self.running.pop(slot))
        if slot not in self.idle:
            self.idle.append(slot)
        return left

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
        returned = {
            attempt.held: attempt.queued for attempt in back if attempt and not attempt.revoked
        }
        self.queue = {**returned, **self.queue}
        for number, attempt in enumerate(kept):
            if attempt is not None and number == 0:
                self.running[slot] = attempt
            elif attempt is not None:
                self.behind.setdefault(slot, {})[attempt.held] = attempt
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
            unwanted = running.is_given_up
            if running.together:  # the others go on
                unwanted = unwanted and all(attempt.is_given_up for attempt in self._behind(slot))
            if (all_stop or unwanted) and (
                running.stop_sent_at is None or now - running.stop_sent_at >= _REPEAT_STOP_S
            ):
                for attempt in (running, *(self._behind(slot) if running.together else ())):
                    if attempt.stop_sent_at is None:
                        attempt.out_of_time = out_of_time
                    attempt.stop_sent_at = now
                slots.append(slot)
        return slots

    def _behind(self, slot: int) -> Iterable[RunningTask]:
        return self.behind.get(slot, {}).values()

    def give_up_disconnected(self) -> Tuple[List[Task], List[RunningTask]]:
        """Give up tasks that must not run while the queue is unreachable.

        Returns the tasks that have not begun, which are removed, and the running ones, marked to be
        handed back.
        """
        queued = [held for held, it in self.queue.items() if it.stops_on_disconnect]
        not_begun = [self.queue.pop(held).task for held in queued]
        begun = [
            it for it in self.in_slots() if it.queued.stops_on_disconnect and not it.must_hand_back
        ]
        for running in begun:
            running.must_hand_back = True
        return not_begun, begun

    def note_begun(self, slot: int, begun: Optional[Iterable[Held]]) -> None:
        """Note which tasks of a slot have begun; None: its program starts anew."""
        if begun is None:
            for running in self.in_slot(slot):
                running.begun = False
            return
        for held in begun:
            self.say_begun.add(slot)
            first = self.running.get(slot)
            if first is not None and first.held == held:
                first.begun = True
            elif held in self.behind.get(slot, {}):
                self.behind[slot][held].begun = True

    def in_slot(self, slot: int) -> Iterator[RunningTask]:
        """Iterate over the attempts of a slot."""
        if slot in self.running:
            yield self.running[slot]
        yield from self._behind(slot)

    def first_reports(self, without: Container[Held] = ()) -> Tuple[Report, ...]:
        """Return the oldest reports, as many as fit into one exchange."""
        chosen: List[Report] = []
        total = 0
        for held, (report, size) in self.reports.items():
            if held in without:
                continue
            total += size
            if chosen and (len(chosen) == _MAX_REPORTS or total > self._most_bytes):
                break
            chosen.append(report)
        return tuple(chosen)

    def were_too_large(self, reports: Iterable[Report]) -> None:
        """Let exchanges have at most half as much as these reports, which did not come through.

        Those with less than one result may have are not too large for anything.
        """
        size = sum(self.reports[fence(report)][1] for report in reports)
        self._most_bytes = min(self._most_bytes, max(size // 2, MAX_RESULT_BYTES))
