"""Places of archives: what a folder and a bucket have in common. See `opening` for which is meant.

A file of a place appears whole or not at all. What is read may have been made by anybody.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import BinaryIO, Final

from taskq.archives.manifest import FileEntry
from taskq.files.blob_store import BlobStore
from taskq.model.errors import ArchiveDamaged

#: What is finished of an archive that is being written, a line for each step; gone at its end.
PROGRESS: Final = "unfinished.jsonl"
#: The folder of the content of blobs, below the archive's.
BLOBS: Final = "blobs"
_CHUNK_BYTES: Final = 1 << 20

#: Writes rows to a stream; returns how many.
Fill = Callable[[BinaryIO], int]


class ArchivePlace(ABC):
    """Where an archive is, or is being written. `str` of it is its address, for people."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[None]:
        """Prepare it for an archive in the block; remove what a kill has left.

        Raise `UsageError` if it holds anything else, `Conflict` if another command is seen there.
        """

    @abstractmethod
    def undo(self) -> None:
        """Take back what `writing` has made: no archive has begun."""

    @abstractmethod
    def blobs(self) -> BlobStore:
        """Return the store of the content of blobs, for writing."""

    @abstractmethod
    def write(self, name: str, content: bytes) -> None:
        """Write a small file, in place of what has its name."""

    @abstractmethod
    def grow(self, name: str, former: bytes, more: bytes) -> None:
        """Add to a small file, whose content is `former`; an addition may come with a later one."""

    @abstractmethod
    def write_table(self, name: str, fill: Fill) -> FileEntry | None:
        """Write a file, and return its digest; None if it has no rows: it is left out."""

    @abstractmethod
    def forget(self, name: str) -> None:
        """Remove a small file, unless the place keeps all."""

    @abstractmethod
    def content_of(self, name: str, most: int) -> bytes | None:
        """Return the content of a small file; None if there is none.

        Raise `UsageError` if there is no such place, `ArchiveDamaged` if it is longer than `most`.
        """

    @abstractmethod
    def opened(self, name: str, most: int) -> AbstractContextManager[BinaryIO]:
        """Open a file as a regular one; what comes after `most` bytes and one is left out.

        Raise `ArchiveDamaged` if it is missing, or no regular file.
        """

    @contextmanager
    def reading(self, file: FileEntry) -> Iterator[BinaryIO]:
        """Open a file of an archive, which anybody may have made; check its length and digest.

        Raise `ArchiveDamaged` if it is missing, no regular file, or has another content.
        """
        with self.opened(file.name, file.bytes) as stream:
            if os.fstat(stream.fileno()).st_size != file.bytes:
                raise ArchiveDamaged(
                    file.name, f"it does not have the {file.bytes} bytes it should"
                )
            if hashed(stream)[1] != file.sha256:
                raise ArchiveDamaged(file.name, "it is damaged: its digest is another one")
            stream.seek(0)
            yield stream

    def is_intact(self, file: FileEntry) -> bool:
        """Return whether a file has the content that it had."""
        try:
            with self.reading(file):
                return True
        except ArchiveDamaged:
            return False


def hashed(file: BinaryIO) -> tuple[int, str]:
    """Return length and SHA-256 of an open file."""
    digest, size = hashlib.sha256(), 0
    file.seek(0)
    while chunk := file.read(_CHUNK_BYTES):
        digest.update(chunk)
        size += len(chunk)
    return size, digest.hexdigest()
