"""Store of output files: their rows in PostgreSQL, their content among the blobs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from taskq.blobs.archives import check_archive, remove_archive
from taskq.blobs.catalogue import open_blobs
from taskq.blobs.store import BlobStore
from taskq.db.access import Queries
from taskq.errors import NotFound, ResultLost
from taskq_agent.archive import OUTPUT, ArchiveRefused, Member, heading, members
from taskq_agent.handlers.outputs import check_name
from taskq_agent.protocol import Held, Input
from taskq_agent.transport import MAX_BLOB_BYTES


class Outputs:
    """Saves and reads output files. Thread-safe. blobs: by default those of `open_blobs`."""

    def __init__(self, database: Queries, blobs: BlobStore | None = None) -> None:
        self._database = database
        self._blobs = open_blobs(database) if blobs is None else blobs

    def save(self, session: int | None, held: Held, saved: Input) -> bool:
        """Make a stored blob the output files of an attempt; False if nobody waits for them.

        session: of the agent, whose rights count; None: a direct one. Raise `NotFound` if there is
        no such blob, `UsageError` if it is no archive of this task or too large, `Conflict` if the
        campaign or the agent's token has no room for it.
        """
        check_archive(self._blobs, saved, heading(OUTPUT, held.campaign, held.task))
        row = self._database.row(
            "save_output",
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

    def find(self, campaign: int, tasks: Sequence[int]) -> dict[int, Input]:
        """Return the archives of tasks; those that have left no files are missing."""
        rows = self._database.rows("outputs_of", campaign=campaign, tasks=list(tasks))
        return {row["task_id"]: Input(row["digest"], row["size"]) for row in rows}

    def read(self, campaign: int, task: int, found: Input) -> list[Member]:
        """Return the files and folders of an archive, checked: no name leads out of a folder.

        Raise `ResultLost` if it is missing, damaged, or made by no agent of taskq.
        """
        data = bytearray()
        try:
            for chunk in self._blobs.read(found.digest):
                data += chunk
                if len(data) > MAX_BLOB_BYTES:
                    break
            if hashlib.sha256(data).hexdigest() != found.digest:
                raise ResultLost(
                    f"blob {found.digest}, output files, is damaged where it is stored"
                )
            listed = list(members(bytes(data), heading(OUTPUT, campaign, task), MAX_BLOB_BYTES))
            for one in listed:
                check_name("/".join(one.parts))
        except NotFound as error:
            raise ResultLost(f"{error}: is TASKQ_BLOBS the same here as for the agents?") from None
        except ArchiveRefused as error:
            raise ResultLost(f"blob {found.digest}, output files: {error}") from None
        return listed
