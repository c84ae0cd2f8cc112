"""The folder of an archive: files that appear whole; files of anybody, opened without links."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, Final

from taskq.archives.manifest import FileEntry
from taskq.files.destination import opened
from taskq.model.errors import ArchiveDamaged, OutputFailed, UsageError
from taskq_agent.paths import is_dir, is_link

#: What is finished of an archive that is being written, a line for each step; gone at its end.
PROGRESS: Final = "unfinished.jsonl"
#: The name of a file that is being written, see `files.destination`.
_LEFT: Final = re.compile(
    r"\.((manifest|unfinished|[a-z]+-[0-9]{6})\.[a-z]+|[0-9a-f]{64})\.[0-9a-f]{12}\.part"
)
_CHUNK_BYTES: Final = 1 << 20
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def made(folder: Path) -> None:
    """Make the folder of an archive; raise `UsageError` if it holds anything else.

    What a kill has left of files that were being written goes.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in folder.rglob(".*.part"):
            if _LEFT.fullmatch(path.name) and not is_link(path):
                path.unlink()
        names = {entry.name for entry in os.scandir(folder)}
    except OSError as error:
        raise UsageError(f"{str(folder)!r}: {error.strerror}") from None
    ours = {PROGRESS, "manifest.json", "manifest.seal"}
    if names and not names & ours:
        raise UsageError(f"{str(folder)!r} is not empty: name a new folder for the archive")


def write(folder: Path, name: str, content: bytes) -> None:
    """Write a small file that appears whole."""
    with opened(folder / name) as stream:
        stream.write(content)


def write_table(folder: Path, name: str, fill: Callable[[BinaryIO], int]) -> FileEntry | None:
    """Write a file, then read it back for its digest; None if it has no rows: it is left out."""
    path = folder / name
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with opened(path) as stream:
            rows = fill(stream)
        if not rows:
            path.unlink()
            return None
        with path.open("rb") as file:
            size, digest = _hashed(file)
    except OSError as error:
        raise OutputFailed(f"{str(path)!r} cannot be written: {error.strerror}") from error
    return FileEntry(name, rows, size, digest)


@contextmanager
def reading(folder: Path, file: FileEntry, *, verify: bool) -> Iterator[BinaryIO]:
    """Open a file of an archive, which anybody may have made, and check its length and digest.

    Raise `ArchiveDamaged` if it is missing, no regular file, or has another content.
    """
    with opened_inside(folder, file.name) as stream:
        if os.fstat(stream.fileno()).st_size != file.bytes:
            raise ArchiveDamaged(file.name, f"it does not have the {file.bytes} bytes it should")
        if verify and _hashed(stream)[1] != file.sha256:
            raise ArchiveDamaged(file.name, "it is damaged: its digest is another one")
        stream.seek(0)
        yield stream


@contextmanager
def opened_inside(folder: Path, name: str) -> Iterator[BinaryIO]:
    """Open a regular file by its name in a folder; no link below the folder is followed."""
    *folders, last = name.split("/")
    try:
        with _inside(folder, folders) as inner:
            descriptor = os.open(last, _READ, dir_fd=inner)
    except OSError as error:
        raise ArchiveDamaged(name, error.strerror or str(error)) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ArchiveDamaged(name, "it is not a regular file")
    with os.fdopen(descriptor, "rb") as stream:
        yield stream


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


def content_of(folder: Path, name: str, most: int) -> bytes | None:
    """Return the content of a small file; None if there is none."""
    if not is_dir(folder):
        raise UsageError(f"there is no folder {str(folder)!r}")
    try:
        with opened_inside(folder, name) as stream:
            content = stream.read(most + 1)
    except ArchiveDamaged:
        if not os.path.lexists(folder / name):
            return None
        raise
    if len(content) > most:
        raise ArchiveDamaged(name, f"it has more than {most} bytes")
    return content


class Steps:
    """What is finished of an archive that is being written, so that a repetition goes on there.

    The first line is the archive's number; with another number everything begins anew.
    """

    def __init__(self, folder: Path, archive: str) -> None:
        self._path = folder / PROGRESS
        head, *steps = self._lines() or [None]
        if head != {"archive": archive}:
            steps = []
            write(folder, PROGRESS, json.dumps({"archive": archive}).encode() + b"\n")
        #: By campaign and range: the last id, and the files.
        self.steps = {
            (step["campaign"], step["part"]): (
                step["last"],
                [FileEntry(**file) for file in step["files"]],
            )
            for step in steps
        }

    def note(self, campaign: int, part: int, last: int, files: list[FileEntry]) -> None:
        """Add a step that is finished, and on disk."""
        step = {
            "campaign": campaign,
            "part": part,
            "last": last,
            "files": [asdict(file) for file in files],
        }
        with self._path.open("ab") as stream:
            stream.write(json.dumps(step).encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())

    def end(self) -> None:
        """Forget it: the archive is whole."""
        self._path.unlink(missing_ok=True)

    def _lines(self) -> list[Any]:
        """Return the steps; forget a last line that a kill has cut off."""
        lines: list[bytes] = []
        with suppress(FileNotFoundError):
            lines = self._path.read_bytes().splitlines(keepends=True)
        if lines and not lines[-1].endswith(b"\n"):
            write(self._path.parent, PROGRESS, b"".join(lines[:-1]))
            lines.pop()
        return [json.loads(line) for line in lines]


def is_intact(folder: Path, file: FileEntry) -> bool:
    """Return whether a file has the content that it had."""
    try:
        with reading(folder, file, verify=True):
            return True
    except ArchiveDamaged:
        return False


def _hashed(file: BinaryIO) -> tuple[int, str]:
    hashed, size = hashlib.sha256(), 0
    file.seek(0)
    while chunk := file.read(_CHUNK_BYTES):
        hashed.update(chunk)
        size += len(chunk)
    return size, hashed.hexdigest()
