"""Standard streams and descriptors of a resident child, out of the way of payload code."""

from __future__ import annotations

import fcntl
import io
import os
import sys
from contextlib import suppress
from typing import Optional, Tuple

from taskq_agent.paths import is_dir

#: Descriptors of the child's own are from here on, if there may be as many: programs that leave
#: their terminal close those below 256.
_HIGH = 900


def copied_up(fd: int) -> int:
    """Return a copy of a descriptor out of the way of payload code."""
    with suppress(OSError):  # fewer are allowed
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    return os.dup(fd)


class OutputStream(io.TextIOWrapper):
    """A standard stream for output, which payload code cannot close: libraries keep references.

    Line buffered: the last output before a crash must not be lost.
    """

    def __init__(self, fd: int) -> None:
        buffer = io.BufferedWriter(io.FileIO(fd, "w", closefd=False))
        super().__init__(buffer, "utf-8", "backslashreplace", line_buffering=True)

    def close(self) -> None:
        """Write what is buffered."""
        self.flush()


def count_files() -> int:
    """Return how many files are open; more than there can be if none can be opened."""
    try:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - often
    except OSError:  # none can be opened, or the system has no such folder
        return sys.maxsize if is_dir("/proc/self/fd") else 0


def identity(fd: int) -> Optional[Tuple[int, int]]:
    """Return what tells the file of a descriptor from others; None if it is closed."""
    try:
        about = os.fstat(fd)
    except OSError:
        return None
    return about.st_dev, about.st_ino
