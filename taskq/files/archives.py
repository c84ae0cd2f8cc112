"""Archives of tasks among the blobs (checkpoints, output files): checked, saved, removed."""

from __future__ import annotations

import logging
from typing import ClassVar, Final

from taskq.db.access import Queries
from taskq.db.connections import Database, Statements
from taskq.files.blob_store import BlobStore
from taskq.files.blobs import open_blobs
from taskq.model.errors import TaskqError, UsageError
from taskq_agent.archive import heading
from taskq_agent.protocol import Held, Input

#: Archives that one call of `Sweeper.sweep` checks.
SWEEP: Final = 200

log = logging.getLogger(__name__)


def check_archive(blobs: BlobStore, saved: Input, head: bytes) -> None:
    """Raise `NotFound` if there is no such blob, `UsageError` if it does not have this heading.

    So no other blob is ever removed.
    """
    start = next(blobs.read(saved.digest), b"")
    if not start.startswith(head):
        raise UsageError(f"blob {saved.digest} is no such archive of this task")
    if blobs.size(saved.digest) != saved.size:
        raise UsageError(f"blob {saved.digest} has not {saved.size} bytes")


class TaskArchives:
    """Archives of one kind: their rows in PostgreSQL, their content among the blobs. Thread-safe.

    KIND: the kind in their headings. SAVES: the statement that makes a blob an attempt's archive.
    """

    KIND: ClassVar[str]
    SAVES: ClassVar[str]

    def __init__(self, database: Queries, blobs: BlobStore) -> None:
        self._database = database
        self._blobs = blobs

    def save(self, session: int | None, held: Held, saved: Input) -> bool:
        """Make a stored blob the archive of an attempt; return False if nobody waits for it.

        Removes the blob of the archive before. session: the agent's, whose rights count; None for a
        direct agent. Raise `NotFound` if there is no such blob, `UsageError` if it is not an
        archive of this task or larger than the campaign allows, `Conflict` if there is no room for
        it.
        """
        check_archive(self._blobs, saved, heading(self.KIND, held.campaign, held.task))
        row = self._database.row(
            self.SAVES,
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


def remove_archive(blobs: BlobStore, digest: str) -> None:
    """Remove a blob to which nothing refers any more; if that fails, it stays and does no harm."""
    try:
        blobs.remove_archive(digest)
    except TaskqError as error:
        log.warning("an archive that is of no use is not removed: %s", error)


class Sweeper:
    """Removes the archives that a statement forgets, such as those of final tasks."""

    def __init__(self, database: Database, statement: str) -> None:
        self._database = database
        self._statement = statement
        self._blobs: BlobStore | None = None
        self._place = (0, 0)

    def sweep(self, statements: Statements) -> int:
        """Check the next archives; return how many were removed."""
        campaign, task = self._place
        row = statements.row(self._statement, campaign=campaign, task=task, most=SWEEP)
        if row is None:
            return 0
        self._place = (row["last_campaign"] or 0, row["last_task"] or 0)
        digests = row["digests"] or []
        if digests and self._blobs is None:
            self._blobs = open_blobs(self._database)
        for digest in digests:
            if self._blobs is not None:
                remove_archive(self._blobs, digest)
        return len(digests)
