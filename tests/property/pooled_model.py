"""Model of a queue where tasks are leased ahead as well: QueueModel with a pool.

The pool is a session that nobody has, `POOL`. A task that waits and is still marked as the pool's
was lost by it, and is not leased ahead again.
"""

from __future__ import annotations

from collections.abc import Iterable

from taskq_agent.protocol import DONE, RELEASED
from tests.property.queue_model import QueueModel
from tests.property.queue_tasks import CANCELLED, WORKING, Task

POOL = 0

#: Task and lease.
Fence = tuple[int, str]


class PooledModel(QueueModel):
    """The tasks of one campaign, some of which are leased ahead."""

    def poolable(self) -> list[Task]:
        """Return what may be leased ahead, in order: nothing that the pool or an agent has lost."""
        return [task for task in self.waiting() if task.session != POOL and not task.losses]

    def pooled(self) -> list[Fence]:
        """Return what is leased ahead, and nobody has named."""
        return [(task.task, task.lease) for task in self.held(POOL)]

    def name(self, session: int, named: Iterable[Fence]) -> int:
        """Give a session what it has got of the pool; return how many."""
        if session not in self.live:
            return 0
        found = self._still_pooled(named)
        for task in found:
            task.session = session
        return len(found)

    def return_ahead(self, fences: Iterable[Fence], *, lost: bool = False) -> int:
        """Let what is still the pool's wait again, as if it had never been; return how many."""
        found = self._still_pooled(fences)
        for task in found:
            self._forget(task)
            task.session = POOL if lost else None
        return len(found)

    def pass_deadline(self) -> int:
        """Let all that nobody has named wait again, for others than the pool; return how many."""
        return self.return_ahead(self.pooled(), lost=True)

    def report(
        self,
        task: Task,
        lease: str,
        outcome: str,
        *,
        error_class: str | None,
        retry: bool,
        started: bool,
        by: int = POOL,
    ) -> str:
        """Take a report in; return the verdict. by: who has had what nobody has named."""
        unnamed = task.session == POOL and not self.is_late(task, lease)
        if unnamed:
            task.session = by
        verdict = super().report(
            task, lease, outcome, error_class=error_class, retry=retry, started=started
        )
        if unnamed:
            was_tried = outcome != DONE and (outcome != RELEASED or started)
            task.session = None if was_tried else POOL
        return verdict

    def beat(
        self,
        session: int,
        named: Iterable[Fence],
        pending: Iterable[str],
        drawn: str,
        *,
        much_later: bool = False,
    ) -> set[int]:
        """Square what a session holds with what it names; return the tasks to stop.

        much_later: since anything was leased ahead, so that it must have been named.
        """
        named = set(named)
        self.name(session, named)
        for task in self.held(session):
            if much_later and _is_ahead(task.lease) and (task.task, task.lease) not in named:
                self._forget(task)
        return super().beat(session, named, pending, drawn)

    def _is_known(self, task: Task, drawn: str) -> bool:
        return not _is_ahead(task.lease) and super()._is_known(task, drawn)

    def _still_pooled(self, fences: Iterable[Fence]) -> list[Task]:
        fences = set(fences)
        return [task for task in self.held(POOL) if (task.task, task.lease) in fences]

    def _end(self, task: Task, outcome: str, status: str, error_class: str | None = None) -> None:
        if (task.status, task.session, outcome) == (WORKING, POOL, CANCELLED):
            self._forget(task)  # it was no attempt
            task.status = status
        else:
            super()._end(task, outcome, status, error_class)


def _is_ahead(lease: str) -> bool:
    """Tell a lease of the pool from those that agents draw."""
    return lease[14] == "8"
