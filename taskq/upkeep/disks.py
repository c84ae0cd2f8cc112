"""Disks of the queue that a keeper measures, so that seeds are refused before they are full."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from taskq.db.access import Queries
from taskq.model.errors import TaskqError
from taskq_agent.paths import exists

#: Seconds after which an unchanged disk is noted again, and share of a disk that is a change.
AGAIN_S: Final = 20.0
CHANGE: Final = 0.005
#: The place of a disk whose size was declared.
DECLARED: Final = "the database (declared size)"

log = logging.getLogger(__name__)


class Disks:
    """The disks that one keeper measures.

    folders: on these disks. size: bytes that the database may take in all, for a server whose disk
    nobody can look at. The disk of the server's data is measured too if the server is on this
    machine and the login may know where they are, as on an embedded queue.
    """

    def __init__(self, folders: Sequence[str] = (), size: int | None = None) -> None:
        self._folders = list(folders)
        self._size = size
        self._noted: dict[str, tuple[float, int | None]] = {}
        self._looked = False

    def note(self, queries: Queries) -> None:
        """Note what is free, if that has changed or some time has passed; a failure is logged."""
        try:
            if not self._looked:
                self._looked = True
                self._folders += _data_folders(queries, self._folders)
            for place, size, free in self._measured():
                at, before = self._noted.get(place, (0.0, None))
                is_same = free == before or abs((free or 0) - (before or 0)) < CHANGE * size
                if before is None or not is_same or time.monotonic() >= at + AGAIN_S:
                    queries.rows("note_disk", place=place, size=size, free=free)
                    self._noted[place] = time.monotonic(), free
        except TaskqError as error:
            log.warning("free room on disks cannot be noted: %s", error)

    def _measured(self) -> Iterator[tuple[str, int, int | None]]:
        if self._size is not None:
            at, _ = self._noted.get(DECLARED, (0.0, None))
            if not at or time.monotonic() >= at + AGAIN_S:
                yield DECLARED, self._size, None
        for folder in self._folders:
            try:
                disk = os.statvfs(folder)
            except OSError:  # another disk, or none, may be there later
                continue
            size, free = disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
            yield f"{socket.gethostname()}:{folder}", size, free


def _data_folders(queries: Queries, known: Sequence[str]) -> list[str]:
    """Return the folder of the server's data if it is here, and on no known disk."""
    for row in queries.rows("data_folder"):
        folder = Path(row["folder"])
        try:
            if exists(folder / "PG_VERSION"):
                device = folder.stat().st_dev
                return (
                    [] if any(Path(it).stat().st_dev == device for it in known) else [str(folder)]
                )
        except OSError:
            continue
    return []
