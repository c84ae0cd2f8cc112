"""Room on the disk that a full queue gives back to a command that removes something.

On a disk without a free byte PostgreSQL accepts no connection, so nothing could be removed that
makes room. A file of some megabytes next to its data is that room: `campaign rm` gives it up first.
The next command that finds plenty of room makes it again.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from taskq_agent.paths import exists

MIB: Final = 1024 * 1024
#: Of the disk, within these bounds: recovery, and removing, take some segments of the log (16 MiB).
_SHARE: Final = 0.02
_BYTES: Final = (96 * MIB, 512 * MIB)
#: The reserve is made where so many times its size are free, and given up where less than it is.
_PLENTY: Final = 2


def keep(file: Path) -> None:
    """Make the reserve if it is gone and there is plenty of room; do nothing where that fails."""
    with suppress(OSError):
        size, free = _room(file)
        if not exists(file) and free > _PLENTY * size:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, size)
            except OSError:
                file.unlink()
            finally:
                os.close(descriptor)


def give_up(file: Path) -> int:
    """Remove the reserve if the disk is full; return its bytes, 0 if nothing was to be removed."""
    with suppress(OSError):
        size, free = _room(file)
        if free < size:
            given = file.stat().st_size
            file.unlink()
            return given
    return 0


def disk_bytes(folder: Path) -> int:
    """Return the size of the disk of a folder."""
    disk = os.statvfs(folder)
    return disk.f_blocks * disk.f_frsize


def _room(file: Path) -> tuple[int, int]:
    disk = os.statvfs(file.parent)
    low, high = _BYTES
    size = max(low, min(high, int(_SHARE * disk.f_blocks * disk.f_frsize)))
    return size, disk.f_bavail * disk.f_frsize
