"""Archive campaigns before the keeper removes them: those with the setting `archive_first`.

Where to is the operator's word (`taskq keeper --archive-to`), never that of a campaign.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Final

from taskq.archives.opening import open_place
from taskq.archives.writing import archive
from taskq.db.connections import Database
from taskq.files.blobs import open_blobs
from taskq.model.errors import TaskqError, UsageError
from taskq.model.loop_faults import LoopFaults
from taskq.upkeep.keeper import END_S, in_background
from taskq_agent.paths import is_dir

#: Seconds between two looks for campaigns that are to be archived.
LOOK_S: Final = 60.0
#: Seconds after which it says again that it archives a campaign.
HOLD_S: Final = 60.0

log = logging.getLogger(__name__)


def checked_place(to: str) -> str:
    """Return where archives go, s3://... or a folder; raise `UsageError` if it cannot be written.

    Nothing is asked of S3 before there is an archive.
    """
    if to.startswith("s3://"):
        open_place(f"{to.rstrip('/')}/archive")
        return to.rstrip("/")
    if not is_dir(Path(to)) or not os.access(to, os.W_OK | os.X_OK):
        raise UsageError(f"{to!r} is not a folder in which this user may write")
    return str(Path(to).absolute())


def archive_due(database: Database, to: str) -> str | None:
    """Archive the next campaign that is to be removed after that; return its path, if there is one.

    A repetition after a kill goes on in the same folder.
    """
    row = database.row("next_to_archive", holding=None)
    if row is None:
        return None
    held_at = time.monotonic()

    def hold(*_: object) -> None:
        nonlocal held_at
        if time.monotonic() > held_at + HOLD_S:
            held_at = time.monotonic()
            database.rows("next_to_archive", holding=row["campaign_id"])

    path: str = row["path"]
    made = archive(database, open_blobs(database), path, f"{to}/{row['name']}", hold)
    log.warning("the campaign %s is archived in %s (digest %s)", path, made.place, made.digest)
    return path


def archive_all(database: Database, to: str, stop: threading.Event) -> None:
    """Archive what is due until `stop` is set; a failure is tried again in ten minutes."""
    faults = LoopFaults(log, "archiving what is to be removed")
    while not stop.is_set():
        found = None
        with faults.noted():
            try:
                found = archive_due(database, to)
            except TaskqError as error:
                log.warning("a campaign stays, since it could not be archived: %s", error)
        if found is None:
            stop.wait(LOOK_S)


def archiving(database: Database, to: str) -> AbstractContextManager[None]:
    """Archive what is due in a thread for the duration of the block."""
    return in_background(partial(archive_all, database, to), "taskq-archiver", END_S)
