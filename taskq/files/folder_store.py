"""Store of blobs in a folder, for example on a shared file system."""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from taskq.files.blob_store import CHUNK_BYTES, BlobStore, check_digest
from taskq.files.destination import sync_folder
from taskq.model.errors import NotFound, Unavailable


class FolderBlobs(BlobStore):
    """Keeps blobs as files named by their digests, in sub-folders named by the first two digits.

    A file is written under a temporary name, synced and renamed, so that a file named by a digest
    is complete, even after a power failure.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def size(self, digest: str) -> int:
        """Return the length of a blob in bytes; raise `NotFound` if it is not here."""
        with self._translated(digest):
            return self._path(digest).stat().st_size

    def read(self, digest: str, offset: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield a blob from an offset on, in chunks of 1 MiB at most; see `BlobStore.read`."""
        with self._translated(digest), self._path(digest).open("rb", buffering=0) as file:
            file.seek(offset)
            left = math.inf if end is None else end - offset
            while left > 0 and (chunk := file.read(int(min(CHUNK_BYTES, left)))):
                yield chunk
                left -= len(chunk)

    def remove_archive(self, digest: str) -> None:
        """Remove a file; nothing if it is not here."""
        with self._translated(digest):
            self._path(digest).unlink(missing_ok=True)

    def _put(self, digest: str, size: int, chunks: Iterable[bytes]) -> None:  # noqa: ARG002  # the base's signature
        path = self._path(digest)
        unfinished = path.with_name(f".{digest}.{secrets.token_hex(6)}.part")
        with self._translated(digest):
            self._make(path.parent)
            try:
                os.utime(path)  # marks it as used, for jobs that remove old files
                return
            except FileNotFoundError:
                pass
            try:
                with unfinished.open("xb") as file:
                    file.writelines(chunks)
                    file.flush()
                    os.fsync(file.fileno())
                unfinished.replace(path)
                for folder in (path.parent, self._folder):  # which may both be new
                    sync_folder(folder)
            finally:
                unfinished.unlink(missing_ok=True)

    def _make(self, folder: Path) -> None:
        """Make a sub-folder, but not the store: without its file system, it is missing."""
        try:
            folder.mkdir(exist_ok=True)
        except FileNotFoundError as error:
            raise Unavailable(f"the folder of blobs {str(self._folder)!r} is gone") from error

    def _path(self, digest: str) -> Path:
        return self._folder / check_digest(digest)[:2] / digest

    @contextmanager
    def _translated(self, digest: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise NotFound(f"{str(self._folder)!r} has no blob {digest}") from None
        except OSError as error:
            raise Unavailable(f"{str(self._folder)!r}: {error.strerror or error}") from error
