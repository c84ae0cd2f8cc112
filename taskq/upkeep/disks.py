"""Disks that are nearly full, as seen by a keeper."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from typing import Any, Final

#: A disk is nearly full if less than a tenth of it, and less than this many bytes, are free.
FREE_SHARE: Final = 0.1
FREE_BYTES: Final = 20 * 10**9


def nearly_full(folders: Iterable[str]) -> list[dict[str, Any]]:
    """Return the folders whose disk is nearly full, with free and total bytes.

    A folder that cannot be checked is left out.
    """
    found = []
    for folder in folders:
        try:
            disk = os.statvfs(folder)
        except OSError:
            continue
        free, size = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
        if free < min(FREE_SHARE * size, FREE_BYTES):
            found.append({"disk": f"{socket.gethostname()}:{folder}", "free": free, "size": size})
    return found
