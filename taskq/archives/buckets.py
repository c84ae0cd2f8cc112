"""Archives in S3: objects with the names that a folder's files have.

A file goes through a temporary one, in the folder that TMPDIR names: it is written there, then
uploaded; downloaded there, checked, then read. So memory is bounded, and what was checked is what
is read, whatever the server returns next time. Lists are read for one thing only: whether a new
archive would come among other objects.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, Final

from taskq.archives import manifest as manifests
from taskq.archives.manifest import FileEntry
from taskq.archives.places import BLOBS, PROGRESS, ArchivePlace, Fill, hashed
from taskq.files.blob_store import CHUNK_BYTES
from taskq.files.s3_store import S3Blobs, S3Objects
from taskq.model.errors import ArchiveDamaged, NotFound, OutputFailed, Unavailable, UsageError

_NAMED_BY: Final = "the address of the archive"
#: Progress is uploaded as a whole, once it has grown by this share: not its square with many steps.
_GROWTH: Final = 1 / 50


class BucketPlace(ArchivePlace):
    """An archive under s3://bucket/prefix."""

    def __init__(self, url: str) -> None:
        """Raise as `S3Objects` does."""
        self._objects = S3Objects(url, named_by=_NAMED_BY)
        self._kept: dict[str, int] = {}

    def __str__(self) -> str:
        """Return the address."""
        return self._objects.url

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Nothing needs to be made; see `ArchivePlace.writing`."""
        if self._objects.first() is not None and all(
            self.content_of(name, manifests.MAX_BYTES) is None
            for name in (PROGRESS, manifests.NAME)
        ):
            raise UsageError(f"{self} is not empty: name a new prefix for the archive")
        yield

    def undo(self) -> None:
        """Do nothing: nothing was made."""

    def blobs(self) -> S3Blobs:
        """Return the store below its prefix."""
        return S3Blobs(f"{self}/{BLOBS}", named_by=_NAMED_BY)

    def write(self, name: str, content: bytes) -> None:
        """Upload a small file."""
        self._objects.put(name, len(content), [content])
        self._kept[name] = len(content)

    def grow(self, name: str, former: bytes, more: bytes) -> None:
        """Upload it as a whole, unless it has grown by little since: see `_GROWTH`."""
        whole = former + more
        if len(whole) >= self._kept.get(name, 0) * (1 + _GROWTH):
            self.write(name, whole)

    def write_table(self, name: str, fill: Fill) -> FileEntry | None:
        """Write a temporary file and upload it; see `ArchivePlace.write_table`."""
        with _temporary(name) as file:
            rows = fill(file)
            if not rows:
                return None
            file.flush()
            size, digest = hashed(file)
            self._objects.put(name, size, _Chunks(file))
        return FileEntry(name, rows, size, digest)

    def forget(self, name: str) -> None:
        """Remove a small file; a bucket that denies that keeps it, which does no harm."""
        with suppress(Unavailable):
            self._objects.remove(name)

    def content_of(self, name: str, most: int) -> bytes | None:
        """Return the content of a small file; see `ArchivePlace.content_of`."""
        content = bytearray()
        with suppress(NotFound):
            for chunk in self._objects.read(name):
                content += chunk
                if len(content) > most:
                    raise ArchiveDamaged(name, f"it has more than {most} bytes")
            return bytes(content)
        return None

    @contextmanager
    def opened(self, name: str, most: int) -> Iterator[BinaryIO]:
        """Download a file to a temporary one; see `ArchivePlace.opened`."""
        with _temporary(name) as file:
            size = 0
            try:
                for chunk in self._objects.read(name):
                    size += file.write(chunk)
                    if size > most:
                        break
            except NotFound:
                raise ArchiveDamaged(name, f"it is missing in {self}") from None
            file.flush()
            file.seek(0)
            yield file


class _Chunks(Iterable[bytes]):
    """The chunks of an open file, each time from its beginning."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def __iter__(self) -> Iterator[bytes]:
        self._file.seek(0)
        while chunk := self._file.read(CHUNK_BYTES):
            yield chunk


@contextmanager
def _temporary(name: str) -> Iterator[BinaryIO]:
    """Give a file that nobody else sees, and that goes with the process."""
    try:
        with tempfile.TemporaryFile(prefix="taskq-archive-") as file:
            yield file
    except OSError as error:
        raise OutputFailed(
            f"{name} needs a temporary file in {tempfile.gettempdir()!r}: "
            f"{error.strerror or error}; name another folder by TMPDIR"
        ) from error
