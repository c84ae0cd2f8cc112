"""Store of checkpoints: their rows in PostgreSQL, their content among the blobs."""

from __future__ import annotations

from taskq.files.archives import TaskArchives
from taskq_agent.archive import CHECKPOINT
from taskq_agent.protocol import Held, Input


class Checkpoints(TaskArchives):
    """Finds and saves checkpoints. Thread-safe.

    session: of the agent, whose rights count; None for a direct agent, which may access all.
    """

    KIND = CHECKPOINT
    SAVES = "save_checkpoint"

    def find(self, session: int | None, held: Held) -> Input | None:
        """Return the blob of a task's last checkpoint; None without one, or if not held so."""
        return self.look(session, held)[0]

    def memory_failures(self, session: int | None, held: Held) -> int:
        """Return how often a task has run out of memory; 0 if it is not held so."""
        return self.look(session, held)[1]

    def look(self, session: int | None, held: Held) -> tuple[Input | None, int]:
        """Return the values of `find` and `memory_failures`."""
        row = self._database.row(
            "find_checkpoint",
            session=session,
            campaign=held.campaign,
            task=held.task,
            lease=held.lease,
        )
        if row is None:
            return None, 0
        found = None if row["digest"] is None else Input(row["digest"], row["size"])
        return found, row["memory_failures"] or 0
