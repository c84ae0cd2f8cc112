"""Large results that agents of this machine leave for their program, in files.

The store of blobs has each of them too, before it is reported: a file only spares the program from
reading the blob there. So files may be missing or damaged, and old ones go.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from taskq_agent.transport import MAX_BLOB_BYTES

#: Bytes of the files at most, read or not; then the oldest goes.
MOST_BYTES: Final = 4 * MAX_BLOB_BYTES


class ResultFolder:
    """The files of the results, named by their SHA-256; folder: must be there. Thread-safe."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._lock = threading.Lock()
        self._left: deque[tuple[Path, int]] = deque()
        self._bytes = 0

    def leave(self, digest: str, data: bytes) -> None:
        """Leave a result, if there is room for it on the disk."""
        path = self._folder / digest
        # Not written in place: the program may be reading the same result of another call.
        unfinished = path.with_suffix(f".{threading.get_ident()}")
        with self._lock:
            self._left.append((path, len(data)))
            self._bytes += len(data)
            while self._bytes > MOST_BYTES:
                oldest, size = self._left.popleft()
                self._bytes -= size
                oldest.unlink(missing_ok=True)
        try:
            unfinished.write_bytes(data)
            unfinished.replace(path)
        except OSError:  # the disk is full, or the program has ended
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)


def taken(folders: Iterable[str], digest: str) -> bytearray | None:
    """Return a result that agents have left, and remove its file; None if there is none."""
    for folder in folders:
        path = Path(folder, digest)
        with suppress(OSError), path.open("rb", buffering=0) as file:
            data = bytearray(min(os.fstat(file.fileno()).st_size, MAX_BLOB_BYTES))
            file.readinto(data)
            path.unlink()
            return data
    return None
