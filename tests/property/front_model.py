"""Model of a queue whose tasks are leased ahead: the tasks of some campaigns, in memory.

The pool is a session that nobody has, `POOL`. Nothing here knows of Redis: whatever is done to it,
these are the only ways in which a task moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from taskq_agent.protocol import (
    ACCEPTED,
    DONE,
    DUPLICATE,
    FAILED,
    RELEASED,
    SUPERSEDED,
    UNKNOWN,
)

POOL = 0
MAX_ATTEMPTS = 3
MAX_LOSSES = 3

WAITING, DELAYED, WORKING, CANCELLED, LOST = "waiting", "delayed", "working", "cancelled", "lost"
WITHDRAWN = "withdrawn"

#: Task and lease.
Fence = tuple[int, str]


@dataclass
class Ended:
    """An attempt that ended; session: who has reported it, or has had it last."""

    attempt: int
    lease: str
    session: int
    outcome: str


@dataclass
class Task:
    """Where a task stands; session: of the last lease, None if there was none."""

    campaign: int
    task: int
    key: str
    priority: int
    status: str = WAITING
    attempt: int = 0
    failures: int = 0
    losses: int = 0
    lease: str = ""
    session: int | None = None
    ended: list[Ended] = field(default_factory=list)

    @property
    def avoids(self) -> bool:
        """Whether it has failed somewhere, or its result was wrong.

        All agents are on one host, so any may have it.
        """
        return self.failures > 0 or any(end.outcome == WITHDRAWN for end in self.ended)

    @property
    def against(self) -> tuple[int, int]:
        """Failures and losses that count: since the last retry; of a task that is done, all."""
        if self.status != DONE:
            return self.failures, self.losses
        outcomes = [end.outcome for end in self.ended]
        return outcomes.count(FAILED), outcomes.count(LOST)


class FrontModel:
    """Tasks by id. live: the sessions that serve the campaigns; closed: campaigns that are paused.

    leased: under which number of attempt each fence was leased ahead.
    """

    def __init__(self) -> None:
        self.tasks: dict[int, Task] = {}
        self.live: set[int] = set()
        self.closed: set[int] = set()
        self.leased: dict[Fence, int] = {}

    def counts(self, campaign: int) -> Counter[str]:
        """Return how many tasks are in each status."""
        return Counter(task.status for task in self.tasks.values() if task.campaign == campaign)

    def waiting(self, campaign: int) -> list[Task]:
        """Return what may be handed out, in order."""
        found = [
            task
            for task in self.tasks.values()
            if (task.campaign, task.status) == (campaign, WAITING)
        ]
        found.sort(key=lambda task: (-task.priority, task.task))
        return [] if campaign in self.closed else found

    def waiting_for(self, campaign: int, session: int) -> list[Task]:
        """Return those that a session may have: of one slot, so one that was lost at a time."""
        full = any(task.losses for task in self.held(session))
        return [task for task in self.waiting(campaign) if not (full and task.losses)]

    @staticmethod
    def apart(tasks: Iterable[Task]) -> list[Task]:
        """Leave out what a claim does not get with the first one that was lost before."""
        found: list[Task] = []
        for task in tasks:
            if not (task.losses and any(before.losses for before in found)):
                found.append(task)
        return found

    def poolable(self, campaign: int) -> list[Task]:
        """Return what may be leased ahead, in order: nothing that the pool or an agent has lost."""
        return [task for task in self.waiting(campaign) if task.session != POOL and not task.losses]

    def held(self, session: int) -> list[Task]:
        """Return the tasks that a session works on."""
        return [
            task
            for task in self.tasks.values()
            if (task.status, task.session) == (WORKING, session)
        ]

    def claim(self, task: Task, session: int, lease: str) -> None:
        """Give a waiting task to a session, or to the pool."""
        assert task in self.waiting(task.campaign)
        task.status, task.session, task.lease = WORKING, session, lease
        task.attempt += 1
        if session == POOL:
            assert (task.task, lease) not in self.leased, "a lease was made twice"
            self.leased[task.task, lease] = task.attempt

    def report(
        self, session: int, fence: Fence, outcome: str, *, retry: bool, started: bool
    ) -> str:
        """Take a session's report in; return the verdict."""
        number, lease = fence
        task = self.tasks[number]
        if (task.status, task.lease) != (WORKING, lease) or not self._may(session, task.session):
            past = [end for end in task.ended if end.lease == lease]
            if not self._may(session, past[0].session if past else task.session):
                return UNKNOWN
            said = {outcome, WITHDRAWN} if outcome == DONE else {outcome}
            return DUPLICATE if any(end.outcome in said for end in past) else SUPERSEDED
        if outcome == DONE:
            self._end(task, DONE, DONE, session)
        elif outcome == FAILED:
            task.failures += 1
            final = not retry or task.failures >= MAX_ATTEMPTS
            self._end(task, FAILED, FAILED if final else DELAYED, session)
            task.session = task.session or None
        elif started:
            self._end(task, RELEASED, WAITING, session)
            task.session = task.session or None
        else:
            self._forget(task)
        return ACCEPTED

    def name(self, session: int, named: Iterable[Fence]) -> int:
        """Give a session what it has got of the pool; return how many."""
        named = set(named)
        found = [task for task in self.held(POOL) if (task.task, task.lease) in named]
        if session not in self.live:
            return 0
        for task in found:
            task.session = session
        return len(found)

    def beat(
        self, session: int, named: Iterable[Fence], drawn: str, *, much_later: bool
    ) -> set[Fence]:
        """Square what a session holds with what it names; return what it shall stop.

        much_later: since anything was leased ahead.
        """
        named = set(named)
        self.name(session, named)
        for task in self.held(session):
            fence = task.task, task.lease
            old = much_later if fence in self.leased else task.lease <= drawn
            if old and fence not in named:
                self._forget(task)
        return named - {(task.task, task.lease) for task in self.held(session)}

    def give_back(self, fences: Iterable[Fence]) -> int:
        """Let what is still the pool's wait again, as if it had never been; return how many."""
        fences = set(fences)
        found = [task for task in self.held(POOL) if (task.task, task.lease) in fences]
        for task in found:
            self._forget(task)
            task.session = None
        return len(found)

    def pass_deadline(self) -> None:
        """Let all that nobody has named wait again, for others than the pool."""
        for task in self.held(POOL):
            self._forget(task)

    def expire(self, session: int) -> int:
        """Give a silent session up; return how many attempts were lost."""
        self.live.discard(session)
        held = self.held(session)
        losses = [task.losses for task in held]
        for task in held:
            stands_out = losses.count(max(losses)) == 1 and task.losses == max(losses)
            task.losses += 1
            final = stands_out and task.losses >= MAX_LOSSES
            self._end(task, LOST, FAILED if final else WAITING, session)
        return len(held)

    def leave(self, session: int) -> int:
        """End a session; return how many attempts were handed back."""
        self.live.discard(session)
        held = self.held(session)
        for task in held:
            self._end(task, RELEASED, WAITING, session)
        return len(held)

    def promote(self) -> None:
        """Let all delayed tasks come due."""
        for task in self.tasks.values():
            if task.status == DELAYED:
                task.status = WAITING

    def cancel(self, task: Task) -> int:
        """Cancel a task if it is not final; return how many were."""
        if task.status not in {WAITING, DELAYED, WORKING}:
            return 0
        if task.status == WORKING and task.session == POOL:
            task.attempt -= 1
        elif task.status == WORKING:
            self._end(task, CANCELLED, CANCELLED, task.session or POOL)
        task.status = CANCELLED
        return 1

    def withdraw(self, task: Task) -> int:
        """Let a task that is done wait again; return how many were."""
        if task.status != DONE:
            return 0
        for end in task.ended:
            if end.outcome == DONE:
                end.outcome, task.session = WITHDRAWN, end.session
        task.status, task.failures, task.losses = WAITING, 0, 0
        return 1

    def _may(self, session: int, owner: int | None) -> bool:
        """Return whether a session may speak of what is another's."""
        return session in self.live if owner == POOL else session == owner

    def _end(self, task: Task, outcome: str, status: str, session: int) -> None:
        task.ended.append(Ended(task.attempt, task.lease, session, outcome))
        task.status = status

    def _forget(self, task: Task) -> None:
        task.attempt -= 1
        task.status = WAITING
