"""Archives a campaign, or restores an archive, and dies at a given write to the disk or database.

Arguments: archive or restore, the DSN, the campaign, the place, tasks of a range or rows of a
step, and how many times it may force something to disk, upload, or change the database, before it
is killed; 0: any number.
At the end it prints by how many bytes its memory grew.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable
from typing import Any

from taskq.archives import restoring, writing
from taskq.db.connections import Database
from taskq.db.statements import Statements
from taskq.files.blobs import open_blobs
from taskq.files.s3_store import S3Objects
from taskq.results.parquet import spare_memory
from taskq_agent.procfs import peak_bytes


def main(what: str, dsn: str, path: str, place: str, range_tasks: str, steps: str) -> None:
    """Do it."""
    if int(steps):
        die_after(int(steps))
    database = Database(dsn).open()
    spare_memory()
    before = peak_bytes(os.getpid())
    blobs = open_blobs(database)
    number = int(range_tasks)
    if what == "archive":
        writing.archive(database, blobs, path, place, lambda *_: None, range_tasks=number)
    else:
        restoring.restore(database, blobs, place, path, lambda *_: None, step_rows=number)
    database.close()
    sys.stdout.write(f"{peak_bytes(os.getpid()) - before}\n")


def die_after(steps: int) -> None:
    """Kill this process at its next-but-`steps` write to the disk or to the database."""
    left = [steps]
    synced, rows, put = os.fsync, Statements.rows, S3Objects.put

    def count() -> None:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def fsync(descriptor: int) -> None:
        count()
        synced(descriptor)

    def counted(self: Statements, name: str, /, **values: object) -> list[dict[str, Any]]:
        if name.startswith(("restore", "begin", "end")):
            count()
        return rows(self, name, **values)

    def uploaded(self: S3Objects, name: str, size: int, chunks: Iterable[bytes]) -> None:
        count()
        put(self, name, size, chunks)

    os.fsync = fsync
    S3Objects.put = uploaded  # type: ignore[method-assign]
    Statements.rows = counted  # type: ignore[method-assign]


if __name__ == "__main__":
    main(*sys.argv[1:])
