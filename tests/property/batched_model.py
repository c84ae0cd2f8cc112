"""Model of a queue where many tasks may have one start: QueueModel with what agents say of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from taskq_agent.protocol import RELEASED
from tests.property.queue_model import QueueModel
from tests.property.queue_tasks import NOT_BEGUN, WAITING, Task

#: An end of a batch job that explains the loss of its agent, and one that does not.
NODE_FAILED, OUT_OF_MEMORY = "job-node-failed", "job-out-of-memory"


@dataclass(frozen=True)
class NamedClaim:
    """A claim as a heartbeat names it: how many of its tasks it holds, and which have begun."""

    lease: str
    tasks: int
    begun: frozenset[int] | None


class BatchedModel(QueueModel):
    """The tasks of one campaign. batch: how many have one start; None: each has its own.

    said: what the last heartbeat of each session has said of claims.
    """

    batch: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self.said: dict[int, Mapping[str, NamedClaim]] = {}

    @property
    def hedges(self) -> bool:
        """Whether second attempts may be made: not of tasks that wait for each other."""
        return super().hedges and self.batch is None

    def share_of_lost(self, session: int, task: Task) -> int:
        """Return how many lost tasks a session may have if this one is among them: by starts."""
        if (self.batch or 1) == 1:
            return super().share_of_lost(session, task)
        return max(1, (self.slots[session] * (self.batch or 1)) >> (2 * (task.losses - 1)))

    def wanted(self, session: int, want: int) -> int:
        """Return how many tasks a claim gets at most: a share of the tail for each slot."""
        return super().wanted(session, self._share_of_tail(session, want))

    def _share_of_tail(self, session: int, want: int) -> int:
        if (self.batch or 1) == 1 or want <= 1:
            return want
        mine = self.slots[session]
        serving = sum(self.slots[number] for number in self.live - self.draining)
        waiting = sum(task.status == WAITING for task in self.tasks.values())
        return min(want, max(1, math.ceil(waiting * mine / max(serving, mine))))

    def beat(
        self,
        session: int,
        named: Iterable[tuple[int, str]],
        pending: Iterable[str],
        drawn: str,
        claims: Collection[NamedClaim] = (),
    ) -> set[int]:
        """Square what a session holds with what it names; return the tasks to stop."""
        self.said[session] = {claim.lease: claim for claim in claims}
        return super().beat(session, named, {*pending, *self.said[session]}, drawn)

    def left_of(self, session: int) -> dict[str, list[int]]:
        """Return what a session has of those claims of which it believes to have more."""
        held = {
            lease: sorted(task.task for task in self.held(session, lease))
            for lease in self.said[session]
        }
        return {
            lease: tasks
            for lease, tasks in held.items()
            if len(tasks) < self.said[session][lease].tasks
        }

    def spared(self, session: int, error_class: str) -> list[Task]:
        """Return which tasks of a lost session say nothing about its loss.

        Those that had not begun; of claims of which no program says it, none unless the end of the
        job explains the loss. If nobody is left to blame, who was spared the last time.
        """
        if self.batch is None:
            return []
        held, said = self.held(session), self.said.get(session, {})
        explained = error_class == NODE_FAILED
        spared = []
        for task in held:
            begun = said[task.lease].begun if task.lease in said else None
            if explained if begun is None else task.task not in begun:
                spared.append(task)
        if len(spared) == len(held) and not explained:
            spared = [task for task in spared if not self._was_spared(task)]
        return spared

    def _was_spared(self, task: Task) -> bool:
        last = task.ended[-1] if task.ended else None
        return (
            last is not None
            and last.attempt == task.attempt - 1
            and (last.outcome, last.error_class) == (RELEASED, NOT_BEGUN)
        )
