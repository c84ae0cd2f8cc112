"""Archives in folders: files that appear whole; files of anybody, opened without links."""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from taskq.archives import manifest as manifests
from taskq.archives.manifest import FileEntry
from taskq.archives.places import BLOBS, PROGRESS, ArchivePlace, Fill, hashed
from taskq.files.destination import opened
from taskq.files.folder_store import FolderBlobs
from taskq.model.errors import ArchiveDamaged, Conflict, OutputFailed, UsageError
from taskq_agent.paths import exists, is_dir, is_link

#: The name of a file that is being written, see `files.destination`.
_LEFT: Final = re.compile(
    r"\.((manifest|unfinished|[a-z]+-[0-9]{6})\.[a-z]+|[0-9a-f]{64})\.[0-9a-f]{12}\.part"
)
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class FolderPlace(ArchivePlace):
    """An archive in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._is_new = False

    def __str__(self) -> str:
        """Return the path."""
        return str(self._folder)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Make the folder; see `ArchivePlace.writing`."""
        self._is_new = not exists(self._folder)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._folder, _FOLDER)
        except OSError as error:
            raise UsageError(f"{str(self)!r}: {error.strerror}") from None
        try:
            with _locked(descriptor, str(self)):
                self._require_ours()
                yield
        finally:
            os.close(descriptor)

    def undo(self) -> None:
        """Remove the folder if it was made."""
        if self._is_new:
            self._folder.rmdir()

    def blobs(self) -> FolderBlobs:
        """Return a folder below it, which is made."""
        folder = self._folder / BLOBS
        folder.mkdir(mode=0o700, exist_ok=True)
        return FolderBlobs(folder)

    def write(self, name: str, content: bytes) -> None:
        """Write a small file that appears whole."""
        with opened(self._folder / name) as stream:
            stream.write(content)

    def grow(self, name: str, former: bytes, more: bytes) -> None:  # noqa: ARG002  # the base's signature
        """Append to a small file, on disk."""
        with (self._folder / name).open("ab") as stream:
            stream.write(more)
            stream.flush()
            os.fsync(stream.fileno())

    def write_table(self, name: str, fill: Fill) -> FileEntry | None:
        """Write a file, then read it back for its digest; see `ArchivePlace.write_table`."""
        path = self._folder / name
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with opened(path) as stream:
                rows = fill(stream)
            if not rows:
                path.unlink()
                return None
            with path.open("rb") as file:
                size, digest = hashed(file)
        except OSError as error:
            raise OutputFailed(f"{str(path)!r} cannot be written: {error.strerror}") from error
        return FileEntry(name, rows, size, digest)

    def forget(self, name: str) -> None:
        """Remove a small file."""
        (self._folder / name).unlink(missing_ok=True)

    def content_of(self, name: str, most: int) -> bytes | None:
        """Return the content of a small file; see `ArchivePlace.content_of`."""
        if not is_dir(self._folder):
            raise UsageError(f"there is no folder {str(self)!r}")
        try:
            with self.opened(name, most) as stream:
                content = stream.read(most + 1)
        except ArchiveDamaged:
            if not os.path.lexists(self._folder / name):
                return None
            raise
        if len(content) > most:
            raise ArchiveDamaged(name, f"it has more than {most} bytes")
        return content

    @contextmanager
    def opened(self, name: str, most: int) -> Iterator[BinaryIO]:  # noqa: ARG002  # the base's signature
        """Open a regular file by its name; no link below the folder is followed."""
        *folders, last = name.split("/")
        try:
            with _inside(self._folder, folders) as inner:
                descriptor = os.open(last, _READ, dir_fd=inner)
        except OSError as error:
            raise ArchiveDamaged(name, error.strerror or str(error)) from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise ArchiveDamaged(name, "it is not a regular file")
        with os.fdopen(descriptor, "rb") as stream:
            yield stream

    def _require_ours(self) -> None:
        """Raise `UsageError` if the folder holds anything but an archive; remove what is left."""
        try:
            for path in self._folder.rglob(".*.part"):
                if _LEFT.fullmatch(path.name) and not is_link(path):
                    path.unlink()
            names = {entry.name for entry in os.scandir(self._folder)}
        except OSError as error:
            raise UsageError(f"{str(self)!r}: {error.strerror}") from None
        if names and not names & {PROGRESS, manifests.NAME, manifests.SEAL}:
            raise UsageError(f"{str(self)!r} is not empty: name a new folder for the archive")


@contextmanager
def _locked(descriptor: int, shown: str) -> Iterator[None]:
    """Keep other commands from a folder, where its file system can."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Conflict(f"another command writes an archive to {shown!r}: wait for it") from None
    except OSError:  # a file system without locks
        pass
    yield


@contextmanager
def _inside(folder: Path, names: list[str]) -> Iterator[int]:
    descriptor = os.open(folder, _FOLDER)
    try:
        for name in names:
            deeper = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = deeper
        yield descriptor
    finally:
        os.close(descriptor)
