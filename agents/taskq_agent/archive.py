"""Archives of a task's files, its checkpoint or its output: a folder as bytes, and back.

An archive is a line that names its kind and its task, and an uncompressed tar file with nothing in
it that may differ where the files do not: so an attempt that has changed nothing makes the same
archive. Only folders and regular files count; names that begin with a dot are left out.

What is read may come from any agent that has had the task. Nothing is written but folders and
regular files, all of them new and below the folder that is given.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import tarfile
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Iterator, List, NamedTuple, Optional, Tuple

MAX_ENTRIES = 1_000

#: Kinds of archives.
CHECKPOINT = "checkpoint"
OUTPUT = "output"

_MAX_DEPTH = 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

# Errors that say nothing about an archive; a name that is too long, say, does.
OF_THE_NODE = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EIO,
    errno.EROFS,
    errno.EMFILE,
    errno.ENFILE,
    errno.EFBIG,
}
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)

#: Name, size, time of the last change, number: what tells whether an archive would be another.
Signature = Tuple[Tuple[str, int, int, int], ...]


class ArchiveRefused(Exception):
    """A folder that cannot be kept, or an archive that cannot be restored; the text says why."""


class ArchiveUnreadable(ArchiveRefused):
    """A folder that could not be read for want of something that the node may have again."""


class Member(NamedTuple):
    """A file of an archive, or a folder, whose content is None. parts: of its name."""

    parts: Tuple[str, ...]
    content: Optional[bytes]
    executable: bool


def heading(kind: str, campaign: int, task: int) -> bytes:
    """Return how each archive of a task begins, and no other blob does."""
    return f"taskq {kind} 1 {campaign}/{task}\n".encode()


def signature(folder: str) -> Signature:
    """Return what changes with each change of a folder, without reading any file.

    Raise `ArchiveRefused` if it has too many files, or cannot be read.
    """
    found = []
    try:
        for name, status in _entries(folder):
            found.append((name, status.st_size, status.st_mtime_ns, status.st_ino))
    except OSError as error:
        raise _unreadable(error) from error
    return tuple(found)


def packed(folder: str, head: bytes, most: int) -> Optional[bytes]:
    """Return the archive of a folder, with this heading; None if there is no file in it.

    A file that vanishes meanwhile is left out; one that is written meanwhile may be kept torn, so
    payloads rename finished files. Raise `ArchiveRefused` if it is larger than `most` bytes, has
    too many files, or cannot be read.
    """
    out = io.BytesIO()
    out.write(head)
    files = 0
    try:
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, status in _entries(folder):
                member = tarfile.TarInfo(name)
                member.mode = status.st_mode & 0o700
                if stat.S_ISDIR(status.st_mode):
                    member.type = tarfile.DIRTYPE
                    archive.addfile(member)
                    continue
                data = _content(f"{folder}/{name}", most - out.tell())
                if data is not None:
                    files += 1
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))
                if out.tell() > most:
                    raise _too_large(most)
    except (OSError, ValueError, tarfile.TarError) as error:
        raise _unreadable(error) from error
    if not files:
        return None
    if out.tell() > most:
        raise _too_large(most)
    return out.getvalue()


def restore(data: bytes, folder: str, head: bytes, most: int) -> None:
    """Write the files of an archive into an empty folder.

    Raise `ArchiveRefused` as `members` does, or if a name is no file's here; OSError if the disk is
    of no use.
    """
    try:
        for member in members(data, head, most):
            _restore_one(member, Path(folder, *member.parts))
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in OF_THE_NODE:
            raise
        raise ArchiveRefused(f"it holds what cannot be a file here: {error}") from error


def members(data: bytes, head: bytes, most: int) -> Iterator[Member]:
    """Yield the files and folders of an archive, folders before what is in them.

    Raise `ArchiveRefused` if it has not this heading, or holds anything else than files and folders
    of at most `most` bytes, or a name that leads elsewhere.
    """
    if not data.startswith(head):
        raise ArchiveRefused("it is not of this task")
    left, seen = most, 0
    try:
        with tarfile.open(fileobj=io.BytesIO(data[len(head) :]), mode="r:") as archive:
            for member in archive:
                seen += 1
                left -= max(0, member.size)
                yield _member(archive, member, fits=seen <= MAX_ENTRIES and left >= 0)
    except (ArchiveRefused, GeneratorExit):
        raise
    except Exception as error:  # tarfile raises whatever it comes upon in damaged headers
        raise ArchiveRefused(f"it is damaged: {error!r:.200}") from error


def _member(archive: tarfile.TarFile, member: tarfile.TarInfo, *, fits: bool) -> Member:
    if not fits:
        raise ArchiveRefused("it is larger than any that is kept")
    parts = PurePosixPath(member.name).parts
    if (
        not parts
        or len(parts) > _MAX_DEPTH
        or any(part in ("/", "//", "..") or "\0" in part for part in parts)
    ):
        raise ArchiveRefused(f"it holds the name {member.name!r:.100}")
    if member.isdir():
        return Member(parts, None, executable=True)
    content = archive.extractfile(member) if member.isreg() and not member.issparse() else None
    if content is None:
        raise ArchiveRefused(f"{member.name!r:.100} is neither a file nor a folder")
    return Member(parts, content.read(), executable=bool(member.mode & 0o100))


def _restore_one(member: Member, path: Path) -> None:
    if member.content is None:
        path.mkdir(0o700, exist_ok=True)
        return
    file = os.open(path, _WRITE, 0o600 | 0o100 * member.executable)
    with os.fdopen(file, "wb") as stream:
        stream.write(member.content)


def _entries(folder: str) -> Iterator[Tuple[str, os.stat_result]]:
    """Yield what counts in a folder, by name, folders before what is in them."""
    found = 0
    left: List[str] = [""]
    while left:
        inside = left.pop()
        with suppress(FileNotFoundError), os.scandir(Path(folder, inside)) as scanned:
            for entry in sorted(scanned, key=lambda one: one.name):
                if entry.name.startswith("."):
                    continue
                name = f"{inside}/{entry.name}" if inside else entry.name
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    is_folder = stat.S_ISDIR(status.st_mode)
                    if not (is_folder or stat.S_ISREG(status.st_mode)):
                        continue
                    found += 1
                    if found > MAX_ENTRIES or name.count("/") >= _MAX_DEPTH:
                        raise ArchiveRefused(
                            f"it has more than {MAX_ENTRIES} files and folders, "
                            f"or they are nested more than {_MAX_DEPTH} deep"
                        )
                    if is_folder:
                        left.append(name)
                    yield name, status


def _content(path: str, most: int) -> Optional[bytes]:
    """Return the content of a regular file; None if it has vanished or become something else."""
    try:
        file = os.open(path, _READ)
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise
    with os.fdopen(file, "rb") as stream:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return None
        data = stream.read(max(0, most) + 1)
    if len(data) > most:
        raise ArchiveRefused("it is larger than what the campaign keeps")
    return data


def _unreadable(error: Exception) -> ArchiveRefused:
    of_node = isinstance(error, OSError) and error.errno in OF_THE_NODE
    return (ArchiveUnreadable if of_node else ArchiveRefused)(f"it cannot be read: {error}")


def _too_large(most: int) -> ArchiveRefused:
    return ArchiveRefused(f"it is larger than the {most} bytes that the campaign keeps")
