"""Model of the queue in memory: one campaign that knows what must come of each step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from taskq_agent.protocol import (
    ACCEPTED,
    CONTINUED,
    DONE,
    DUPLICATE,
    FAILED,
    OUT_OF_TIME,
    RELEASED,
    SUPERSEDED,
    TOO_LONG,
)
from tests.property.counted_starts import CountedStarts
from tests.property.queue_tasks import (
    CANCELLED,
    DELAYED,
    HEDGED,
    LOST,
    NOT_BEGUN,
    WAITING,
    WITHDRAWN,
    WORKING,
    Ended,
    Task,
)

MAX_ATTEMPTS, MAX_LOSSES, MAX_OUT_OF_TIME = 3, 3, 2
#: A host or site: its kind and its name.
Place = tuple[str, str]


class QueueModel:
    """The tasks of one campaign, by id. state: the campaign's; above: that of the one above it.

    live: the open sessions; hosts, sites: where each session is, or was. banned: kinds and names of
    places that are; draining: sessions with the order to leave.
    """

    def __init__(self) -> None:
        self.tasks: dict[int, Task] = {}
        self.payloads: dict[str, int] = {}
        self.live: set[int] = set()
        self.hosts: dict[int, str] = {}
        self.sites: dict[int, str] = {}
        self.slots: dict[int, int] = {}
        self.banned: set[Place] = set()
        self.draining: set[int] = set()
        self.state = self.above = "open"
        self.salvages = False
        self.never_retry: set[str] = set()
        self.max_lost_hosts = 3
        self.limit = CountedStarts()

    @property
    def hedges(self) -> bool:
        """Whether second attempts may be made: not where a limit counts those that run."""
        return self.salvages and not self.limit.named

    def open(self, session: int, host: str, site: str = "here", slots: int = 1) -> None:
        """Open a session of an agent on a node."""
        self.live.add(session)
        self.hosts[session], self.sites[session], self.slots[session] = host, site, slots

    def ban(self, place: Place) -> None:
        """Keep agents away from a host or site, and tell those that are there to leave."""
        self.banned.add(place)
        self.draining |= {
            session
            for session in self.live
            if place in {("host", self.hosts[session]), ("site", self.sites[session])}
        }

    def kept_away(self, host: str, site: str) -> Place | None:
        """Return the ban for which agents are not let in; of two that of the host."""
        return next((at for at in (("host", host), ("site", site)) if at in self.banned), None)

    @property
    def states(self) -> set[str]:
        """Those that decide whether tasks are handed out."""
        return {self.state, self.above}

    def counts(self) -> Counter[str]:
        """Return how many tasks are in each status."""
        return Counter(task.status for task in self.tasks.values())

    def waiting(self) -> list[Task]:
        """Return the waiting tasks in the order in which they are handed out."""
        found = [task for task in self.tasks.values() if task.status == WAITING]
        return sorted(found, key=lambda task: (-task.priority, task.task))

    def seed(self, records: Iterable[tuple[str, int]], on_conflict: str) -> int | None:
        """Store payloads under their keys; return the conflicts, or None if they are refused.

        What is new by its key comes first, then the rest in order.
        """
        stored, rest, conflicts = dict(self.payloads), [], 0
        for key, payload in records:
            if stored.setdefault(key, payload) != payload:
                rest.append((key, payload))
        for key, payload in rest:
            number = 2
            while stored.get(f"{key}#{number}", payload) != payload:
                number += 1
            if f"{key}#{number}" not in stored:
                conflicts += 1
                if on_conflict == "keep-both":
                    stored[f"{key}#{number}"] = payload
        if conflicts and on_conflict == "fail":
            return None
        self.payloads = stored
        return conflicts

    def waiting_for(self, session: int) -> list[Task]:
        """Return those of which a session may have any one."""
        host = self.hosts[session]
        hosts = {self.hosts[session] for session in self.live - self.draining}
        free = [task for task in self.waiting() if host not in task.avoids or hosts <= task.avoids]
        return [task for task in free if self.has_room(session, [task])]

    def has_room(self, session: int, tasks: Iterable[Task]) -> bool:
        """Return whether a session may have these as well: few of those that were lost before."""
        more = [task for task in tasks if task.losses]
        lost = [*(task for task in self.held(session) if task.losses), *more]
        return not more or len(lost) <= min(self.share_of_lost(session, task) for task in lost)

    def share_of_lost(self, session: int, task: Task) -> int:
        """Return how many lost tasks a session may have if this one is among them."""
        last = min(MAX_LOSSES, self.max_lost_hosts) - 1
        return 1 if task.losses >= last else max(1, self.slots[session] >> task.losses)

    def apart(self, session: int, tasks: Iterable[Task]) -> list[Task]:
        """Leave out those that a claim does not get with others that were lost before."""
        found: list[Task] = []
        for task in tasks:
            if self.has_room(session, [*found, task]):
                found.append(task)
        return found

    def wanted(self, session: int, want: int) -> int:
        """Return how many tasks a claim gets at most: what the named limit leaves."""
        return self.limit.wanted(session, want, self.tasks.values(), self.slots)

    def claimable(self, session: int, lease: str) -> list[Task]:
        """Return what a claim may get: nothing that had its lease before."""
        free = self.waiting_for(session)
        return [task for task in free if all(end.lease != lease for end in task.ended)]

    def held(self, session: int, lease: str | None = None) -> list[Task]:
        """Return the tasks that a session works on, under one lease or all."""
        return [
            task
            for task in self.tasks.values()
            if task.status == WORKING and task.session == session and lease in {None, task.lease}
        ]

    def claim(self, task: Task, session: int, lease: str) -> None:
        """Hand a task out."""
        assert task.status == WAITING
        assert self.states == {"open"}
        task.status, task.session, task.lease = WORKING, session, lease
        task.attempt += 1
        self.limit.note(session, lease)

    def report(
        self,
        task: Task,
        lease: str,
        outcome: str,
        *,
        error_class: str | None,
        retry: bool,
        started: bool,
    ) -> str:
        """Take a report in; return the verdict. Of many at once the late ones come last."""
        cut_short = outcome == RELEASED and error_class in {OUT_OF_TIME, CONTINUED} and started
        if cut_short and self._is_too_long(task, lease):
            outcome, error_class, retry = FAILED, TOO_LONG, False
        if self.is_late(task, lease):
            lost = self._salvageable(task, lease)
            if outcome == DONE and lost is not None:
                self._salvage(task, lost)
                return ACCEPTED
            said = {outcome, WITHDRAWN} if outcome == DONE else {outcome}
            same = any(end.lease == lease and end.outcome in said for end in task.ended)
            return DUPLICATE if same else SUPERSEDED
        if outcome == DONE:
            self._end(task, DONE, DONE)
        elif outcome == FAILED:
            task.failures += 1
            if task.session in self.hosts:
                task.avoids.add(self.hosts[task.session])
            hopeless = not retry or error_class in self.never_retry
            final = hopeless or task.failures >= MAX_ATTEMPTS
            self._end(task, FAILED, FAILED if final else self._back(DELAYED), error_class)
        elif started:
            self._end(task, RELEASED, self._back(WAITING), error_class)
        else:
            self._forget(task)
        return ACCEPTED

    def _is_too_long(self, task: Task, lease: str) -> bool:
        """Return whether an attempt that is out of time is, or was, one too many of its task."""
        for end in task.ended:
            if end.lease == lease:
                return end.error_class == TOO_LONG
        _, by, since = task.checkpoint or (0, "", 0)
        since = max([since, *(end.attempt for end in task.ended if end.error_class == TOO_LONG)])
        cut = [
            end
            for end in task.ended
            if end.attempt > since and end.error_class in {OUT_OF_TIME, CONTINUED}
        ]
        return by != lease and len(cut) + 1 >= MAX_OUT_OF_TIME

    def save(self, task: Task, lease: str, content: int) -> bool:
        """Keep a checkpoint of the attempt at work; what was kept already is no progress."""
        if self.is_late(task, lease):
            return False
        if task.checkpoint is None or task.checkpoint[0] != content:
            task.checkpoint = content, lease, task.attempt
        return True

    def tell(self, session: int, task: Task, lease: str, part: float) -> None:
        """Say how far an attempt is; it counts only from who works on it."""
        if not self.is_late(task, lease) and task.session == session:
            task.progress[lease] = part

    def shown(self) -> dict[int, float]:
        """Return how far the attempts at work are, of those that say so."""
        return {
            task.task: task.progress[task.lease]
            for task in self.tasks.values()
            if task.status == WORKING and task.lease in task.progress
        }

    def lost(self) -> list[tuple[int, str]]:
        """Return the fences of attempts that were given up or hedged, and have not succeeded."""
        return [
            (task.task, end.lease)
            for task in self.tasks.values()
            for end in task.ended
            if end.is_given_up
        ]

    def is_late(self, task: Task, lease: str) -> bool:
        """Return whether a lease is the task's no more."""
        return task.status != WORKING or task.lease != lease

    def beat(
        self, session: int, named: Iterable[tuple[int, str]], pending: Iterable[str], drawn: str
    ) -> set[int]:
        """Square what a session holds with what it names; return the tasks to stop."""
        named, pending = set(named), set(pending)
        for task in self.held(session):
            mentioned = (task.task, task.lease) in named or task.lease in pending
            if not mentioned and self._is_known(task, drawn):
                self._forget(task)
        return {
            number
            for number, lease in named
            if (number, lease) not in {(task.task, task.lease) for task in self.held(session)}
            and self._salvageable(self.tasks[number], lease) is None
        }

    def expire(self, session: int, error_class: str = "agent-lost") -> int:
        """Give a silent session up; return how many attempts were lost.

        error_class: what the end of its batch job is called.
        """
        self.live.discard(session)
        held = self.held(session)
        spared = self.spared(session, error_class)
        blamed = [task for task in held if task not in spared]
        most = sorted([-1, *(task.losses for task in blamed)])[-2:]
        for task in spared:
            self._end(task, RELEASED, self._back(WAITING), NOT_BEGUN)
        for task in blamed:
            before = [end.host for end in task.ended if end.outcome == LOST]
            nodes = {self.hosts[session], *before[len(before) - task.losses :]}
            poison = task.losses > most[0] and len(nodes) >= self.max_lost_hosts
            final = task.losses > most[0] and (poison or task.losses + 1 >= MAX_LOSSES)
            task.avoids |= {self.hosts[session]} if task.losses > max(most[0], 0) else set()
            task.losses += 1
            back = FAILED if final else self._back(WAITING)
            self._end(task, LOST, back, "poison" if poison else error_class)
        return len(held)

    def spared(self, session: int, error_class: str) -> list[Task]:
        """Return which tasks of a lost session say nothing about its loss."""
        del session, error_class  # each has begun
        return []

    def hedge(self, task: Task, lease: str) -> bool:
        """Let a second attempt be made of a task; return whether that may be."""
        hedged = any(HEDGED in {end.outcome, end.error_class} for end in task.ended)
        last = task.failures + 1 >= MAX_ATTEMPTS
        idle = self.is_late(task, lease) or not task.session or CANCELLED in self.states
        if idle or hedged or last or not self.hedges:
            return False
        task.avoids.add(self.hosts[task.session])
        self._end(task, HEDGED, WAITING, HEDGED)
        return True

    def leave(self, session: int) -> int:
        """End a session; return how many attempts were handed back."""
        self.live.discard(session)
        held = self.held(session)
        for task in held:
            self._end(task, RELEASED, self._back(WAITING))
        return len(held)

    def promote(self, task: Task) -> None:
        """Let a delayed task come due."""
        assert task.status == DELAYED
        task.status = WAITING

    def cancel(self, tasks: Iterable[Task]) -> int:
        """Cancel tasks that are not final; return how many."""
        moved = [task for task in tasks if task.status in {WAITING, DELAYED, WORKING}]
        for task in moved:
            if task.status == WORKING:
                self._end(task, CANCELLED, CANCELLED)
            task.status = CANCELLED
        return len(moved)

    def prioritise(self, tasks: Iterable[Task], priority: int) -> tuple[int, int]:
        """Give tasks another priority; return how many got it, and how many had it."""
        idle = [task for task in tasks if task.status in {WAITING, DELAYED}]
        moved = [task for task in idle if task.priority != priority]
        for task in moved:
            task.priority = priority
        return len(moved), len(idle) - len(moved)

    def retry(
        self, status: str, error_class: str | None, matches: Callable[[Task], bool] = lambda _: True
    ) -> int:
        """Give tasks another chance; return how many."""
        moved = self.retriable(status, error_class, matches)
        for task in moved:
            task.status, task.failures, task.losses, task.avoids = WAITING, 0, 0, set()
            for end in task.ended:
                if end.outcome == DONE:
                    end.outcome, task.avoids, task.priority = WITHDRAWN, {end.host}, task.seeded
                    task.session = task.ended[-1].session
        return len(moved)

    def retriable(
        self, status: str, error_class: str | None, matches: Callable[[Task], bool]
    ) -> list[Task]:
        """Return what a retry would move."""
        return [
            task
            for task in self.tasks.values()
            if task.status == status
            and (error_class is None or error_class == self._last_error_class(task))
            and matches(task)
        ]

    def _back(self, wanted: str) -> str:
        return CANCELLED if CANCELLED in self.states else wanted

    def _end(self, task: Task, outcome: str, status: str, error_class: str | None = None) -> None:
        assert task.session is not None
        host = self.hosts[task.session]
        task.ended.append(Ended(task.attempt, task.lease, outcome, error_class, host, task.session))
        task.status = status

    def _is_known(self, task: Task, drawn: str) -> bool:
        """Return whether an agent that had drawn a lease must have known of its task's."""
        return task.lease <= drawn

    def _salvageable(self, task: Task, lease: str) -> Ended | None:
        """Return the lost or hedged attempt of which a success would still count."""
        last = {end.attempt: end.outcome for end in task.ended}.get(task.attempt)
        undecided = task.status in {WAITING, DELAYED, WORKING}
        if self.salvages and (undecided or (task.status == FAILED and last == LOST)):
            for end in task.ended:
                if end.lease == lease and end.is_given_up:
                    return end
        return None

    def _salvage(self, task: Task, lost: Ended) -> None:
        """Let a lost attempt have succeeded after all."""
        if task.status == WORKING:
            self._end(task, CANCELLED, CANCELLED, "salvaged")
        lost.outcome = DONE
        task.status = DONE

    def _forget(self, task: Task) -> None:
        task.attempt -= 1
        task.status = self._back(WAITING)

    def _last_error_class(self, task: Task) -> str | None:
        return next((end.error_class for end in task.ended if end.attempt == task.attempt), None)
