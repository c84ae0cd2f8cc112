"""Store of checkpoints: their rows in PostgreSQL, their content among the blobs."""

from __future__ import annotations

from taskq.blobs.archives import check_archive, remove_archive
from taskq.blobs.store import BlobStore
from taskq.db.connections import Database
from taskq_agent.archive import CHECKPOINT, heading
from taskq_agent.protocol import Held, Input


class Checkpoints:
    """Finds and saves checkpoints. Thread-safe.

    session: of the agent that asks, whose rights count; None: a direct agent, which may all.
    """

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self._database = database
        self._blobs = blobs

    def find(self, session: int | None, held: Held) -> Input | None:
        """Return the blob with a task's last checkpoint; None if it has none, or is not held so."""
        return self.look(session, held)[0]

    def memory_failures(self, session: int | None, held: Held) -> int:
        """Return how often a task has run out of memory; 0 if it is not held so."""
        return self.look(session, held)[1]

    def look(self, session: int | None, held: Held) -> tuple[Input | None, int]:
        """Return what `find` and `memory_failures` return."""
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

    def save(self, session: int | None, held: Held, saved: Input) -> bool:
        """Make a stored blob a task's checkpoint; False if the lease is no longer the task's.

        The blob of the one before is removed. Raise `NotFound` if there is no such blob, and
        `UsageError` if it is not an archive of this task, so that no other blob is ever removed.
        """
        check_archive(self._blobs, saved, heading(CHECKPOINT, held.campaign, held.task))
        row = self._database.row(
            "save_checkpoint",
            session=session,
            campaign=held.campaign,
            task=held.task,
            lease=held.lease,
            digest=saved.digest,
            size=saved.size,
        )
        if row is None or not row["saved"]:
            return False
        if row["replaced"] is not None:
            remove_archive(self._blobs, row["replaced"])
        return True
