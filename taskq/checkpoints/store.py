"""Store of checkpoints: their rows in PostgreSQL, their content among the blobs."""

from __future__ import annotations

import logging
from typing import Final

from taskq.blobs.catalogue import open_blobs
from taskq.blobs.store import BlobStore
from taskq.db.connections import Database, Statements
from taskq.errors import TaskqError, UsageError
from taskq_agent.checkpoint import heading
from taskq_agent.protocol import Held, Input

#: Checkpoints that one call of `Sweeper.sweep` looks at.
SWEEP: Final = 200

log = logging.getLogger(__name__)


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
        start = next(self._blobs.read(saved.digest), b"")
        if not start.startswith(heading(held.campaign, held.task)):
            raise UsageError(f"blob {saved.digest} is no checkpoint of this task")
        if self._blobs.size(saved.digest) != saved.size:
            raise UsageError(f"blob {saved.digest} has not {saved.size} bytes")
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
            _remove(self._blobs, row["replaced"])
        return True


class Sweeper:
    """Removes the checkpoints of tasks that are final, some at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._blobs: BlobStore | None = None
        self._place = (0, 0)

    def sweep(self, statements: Statements) -> int:
        """Look at the next ones; return how many were removed."""
        campaign, task = self._place
        row = statements.row("end_checkpoints", campaign=campaign, task=task, most=SWEEP)
        if row is None:
            return 0
        self._place = (row["last_campaign"] or 0, row["last_task"] or 0)
        digests = row["digests"] or []
        if digests and self._blobs is None:
            self._blobs = open_blobs(self._database)
        for digest in digests:
            if self._blobs is not None:
                _remove(self._blobs, digest)
        return len(digests)


def _remove(blobs: BlobStore, digest: str) -> None:
    """Remove a blob to which nothing refers any more; where that fails it stays, and is no harm."""
    try:
        blobs.remove_checkpoint(digest)
    except TaskqError as error:
        log.warning("a checkpoint that is of no use is not removed: %s", error)
