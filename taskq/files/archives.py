"""Archives of tasks among the blobs (checkpoints, output files): checked, saved, removed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import ClassVar, Final

from taskq.db.access import Queries
from taskq.db.connections import Database, Statements
from taskq.files.blob_store import BlobStore
from taskq.files.blobs import open_blobs
from taskq.model.errors import NotFound, ResultLost, TaskqError, UsageError
from taskq_agent.archive import CHECKPOINT, OUTPUT, ArchiveRefused, Member, heading, members
from taskq_agent.handlers.kept_files import check_name
from taskq_agent.protocol import Held, Input
from taskq_agent.transport import MAX_BLOB_BYTES

#: Archives that one call of `Sweeper.sweep` checks.
SWEEP: Final = 200

log = logging.getLogger(__name__)


def check_archive(blobs: BlobStore, saved: Input, head: bytes) -> None:
    """Raise `NotFound` if there is no such blob, `UsageError` if it does not have this heading.

    So no other blob is ever removed.
    """
    start = next(blobs.read(saved.digest), b"")
    if not start.startswith(head):
        raise UsageError(f"blob {saved.digest} is not an archive of this kind for this task")
    if blobs.size(saved.digest) != saved.size:
        raise UsageError(f"blob {saved.digest} does not have {saved.size} bytes")


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


class Checkpoints(TaskArchives):
    """Finds and saves checkpoints. Thread-safe.

    session: of the agent, whose rights count; None for a direct agent, which may access all.
    """

    KIND = CHECKPOINT
    SAVES = "save_checkpoint"

    def find(self, session: int | None, held: Held) -> tuple[Input | None, int]:
        """Return the blob of a task's last checkpoint, and how often it has run out of memory.

        None without a checkpoint; None and 0 if the session does not hold the task with this lease.
        """
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


class Outputs(TaskArchives):
    """Saves and reads output files. Thread-safe. blobs: by default see `open_blobs`."""

    KIND = OUTPUT
    SAVES = "save_output"

    def __init__(self, database: Queries, blobs: BlobStore | None = None) -> None:
        super().__init__(database, open_blobs(database) if blobs is None else blobs)

    def find(self, campaign: int, tasks: Sequence[int]) -> dict[int, Input]:
        """Return the archives of tasks by task; tasks without output files are missing."""
        rows = self._database.rows("outputs_of", campaign=campaign, tasks=list(tasks))
        return {row["task_id"]: Input(row["digest"], row["size"]) for row in rows}

    def files(self, campaign: int, task: int) -> dict[str, bytes]:
        """Return the output files of a task by name; raise as `read` does."""
        archives = self.find(campaign, [task]).values()
        members = (member for archive in archives for member in self.read(campaign, task, archive))
        return {
            "/".join(member.parts): member.content
            for member in members
            if member.content is not None
        }

    def read(self, campaign: int, task: int, found: Input) -> list[Member]:
        """Return the files and folders of an archive, checked: no name leads out of a folder.

        Raise `ResultLost` if it is missing, damaged, or not made by an agent of taskq.
        """
        try:
            data = self._blobs.whole(found.digest, "output files")
            listed = list(members(bytes(data), heading(OUTPUT, campaign, task), MAX_BLOB_BYTES))
            for member in listed:
                check_name("/".join(member.parts))
        except ResultLost:  # damaged: another store would not help
            raise
        except NotFound as error:
            raise ResultLost(f"{error}: is TASKQ_BLOBS the same here as for the agents?") from None
        except ArchiveRefused as error:
            raise ResultLost(f"blob {found.digest}, output files: {error}") from None
        return listed


def remove_archive(blobs: BlobStore, digest: str) -> None:
    """Remove a blob to which nothing refers any more; if that fails, it stays and does no harm."""
    try:
        blobs.remove_archive(digest)
    except TaskqError as error:
        log.warning("an archive that nobody needs could not be removed: %s", error)


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
