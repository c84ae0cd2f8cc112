"""Store of output files: their rows in PostgreSQL, their content among the blobs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from taskq.db.access import Queries
from taskq.files.archives import TaskArchives
from taskq.files.blob_store import BlobStore
from taskq.files.blobs import open_blobs
from taskq.model.errors import NotFound, ResultLost
from taskq_agent.archive import OUTPUT, ArchiveRefused, Member, heading, members
from taskq_agent.handlers.outputs import check_name
from taskq_agent.protocol import Input
from taskq_agent.transport import MAX_BLOB_BYTES


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
        members = (member for one in archives for member in self.read(campaign, task, one))
        return {"/".join(one.parts): one.content for one in members if one.content is not None}

    def read(self, campaign: int, task: int, found: Input) -> list[Member]:
        """Return the files and folders of an archive, checked: no name leads out of a folder.

        Raise `ResultLost` if it is missing, damaged, or not made by an agent of taskq.
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
