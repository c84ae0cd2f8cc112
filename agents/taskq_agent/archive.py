"""Archives of a task's files (its checkpoint or its output): a folder as bytes, and back.

An archive is a line that names its kind and its task, and an uncompressed tar file (see `tar`). The
tar file holds nothing that could differ between equal files, so an attempt that has changed nothing
makes the same archive. Only folders and regular files count; names that begin with a dot are left
out.

An archive may come from any agent that has had the task. Restoring it writes only folders and
regular files, all of them new and below the given folder.

A payload may put a link anywhere, at any time. No link is followed: each folder is opened from its
parent, see `scratch`.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import ExitStack, suppress
from itertools import islice
from typing import Iterator, List, NamedTuple, Optional, Set, Tuple

from taskq_agent import tar
from taskq_agent.scratch import READ_SAFELY, opened, opened_below

MAX_ENTRIES = 1_000
MOST_NAMES = 100_000  # also of links and hidden files, which do not count as entries

#: Kinds of archives.
CHECKPOINT = "checkpoint"
OUTPUT = "output"

_MAX_DEPTH = 20
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

# Errors that say nothing about an archive. A name that is too long, for example, says something.
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

#: Name, size, time of the last change, inode number: an archive differs only if one of them does.
Signature = Tuple[Tuple[str, int, int, int], ...]


class ArchiveRefused(Exception):
    """A folder that cannot be kept, or an archive that cannot be restored; the text says why."""


class ArchiveUnreadable(ArchiveRefused):
    """A folder that cannot be read now: the node lacks something that it may get back."""


class ArchiveTooLarge(ArchiveRefused):
    """A folder that is larger than what the campaign keeps."""


class Member(NamedTuple):
    """A file or folder of an archive. parts: of its name. content: None for a folder."""

    parts: Tuple[str, ...]
    content: Optional[bytes]
    executable: bool


def heading(kind: str, campaign: int, task: int) -> bytes:
    """Return the first line of each archive of a task; no other blob begins with it."""
    return f"taskq {kind} 1 {campaign}/{task}\n".encode()


def signature(folder: str) -> Signature:
    """Return a value that changes with each change of a folder, without reading any file.

    Raise `ArchiveRefused` if it has too many files, or cannot be read.
    """
    found = []
    try:
        for name, status, _ in _entries(folder):
            found.append((name, status.st_size, status.st_mtime_ns, status.st_ino))
    except OSError as error:
        raise _unreadable(error) from error
    return tuple(found)


def packed(folder: str, head: bytes, most: int) -> Optional[bytes]:
    """Return the archive of a folder, with this heading; None if it contains no file.

    A file that vanishes meanwhile is left out. A file written meanwhile may be torn, so payloads
    should rename finished files. Raise `ArchiveRefused` if it is larger than `most` bytes, has too
    many files, or cannot be read.
    """
    out = bytearray(head)
    files = 0
    try:
        for name, status, inside in _entries(folder):
            data = None
            if not stat.S_ISDIR(status.st_mode):
                data = _content(inside, name.rpartition("/")[2], most - len(out))
                if data is None:
                    continue
                files += 1
            out += tar.blocks(name, data, executable=bool(status.st_mode & 0o100))
    except (OSError, ValueError) as error:
        raise _unreadable(error) from error
    if not files:
        return None
    out += tar.END
    if len(out) > most:
        raise ArchiveTooLarge(f"it is larger than the {most} bytes that the campaign keeps")
    return bytes(out)


def restore(data: bytes, folder: str, head: bytes, most: int) -> None:
    """Write the files of an archive into an existing empty folder.

    Raise `ArchiveRefused` as `members` does, or if a file cannot have its name here; OSError if the
    disk is unusable.
    """
    try:
        with opened(folder) as top:
            for member in members(data, head, most):
                _restore_one(member, top)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in OF_THE_NODE:
            raise
        raise ArchiveRefused(f"it holds what cannot be a file here: {error}") from error


def members(data: bytes, head: bytes, most: int) -> Iterator[Member]:
    """Yield the files and folders of an archive, folders before their content.

    Raise `ArchiveRefused` if it lacks this heading, exceeds `most` bytes or the limits of archives,
    is no tar file as `packed` writes it, or holds a name that leads elsewhere, a name twice, or a
    file in place of a folder.
    """
    if not data.startswith(head):
        raise ArchiveRefused("it belongs to another task")
    if len(data) > most:
        raise ArchiveRefused("it exceeds the limits of archives")
    files: Set[Tuple[str, ...]] = set()
    folders: Set[Tuple[str, ...]] = set()
    try:
        for number, entry in enumerate(tar.entries(memoryview(data)[len(head) :])):
            if number >= MAX_ENTRIES:
                raise ArchiveRefused("it exceeds the limits of archives")
            parts, is_file = _parts(entry), entry.content is not None
            above = [parts[:depth] for depth in range(1, len(parts))]
            if parts in files or (is_file and parts in folders) or not files.isdisjoint(above):
                raise ArchiveRefused(f"it holds the name {entry.name!r:.100} twice")
            folders.update(above)
            (files if is_file else folders).add(parts)
            content = None if entry.content is None else bytes(entry.content)
            yield Member(parts, content, entry.executable)
    except ValueError as error:
        raise ArchiveRefused(f"it is damaged: {error}") from error


def _parts(entry: tar.TarEntry) -> Tuple[str, ...]:
    """Return the parts of a name that stays below the folder; else raise `ArchiveRefused`."""
    name = entry.name[:-1] if entry.content is None and entry.name[-1:] == "/" else entry.name
    parts = tuple(name.split("/"))
    if len(parts) > _MAX_DEPTH or "\0" in name or not {"", ".", ".."}.isdisjoint(parts):
        raise ArchiveRefused(f"it holds the name {entry.name!r:.100}")
    return parts


def _restore_one(member: Member, top: int) -> None:
    *above, name = member.parts
    with opened_below(top, above) as inside:
        if member.content is None:
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=inside)
            return
        file = os.open(name, _WRITE, 0o600 | 0o100 * member.executable, dir_fd=inside)
    with os.fdopen(file, "wb") as stream:
        stream.write(member.content)


def _entries(folder: str) -> Iterator[Tuple[str, os.stat_result, int]]:
    """Yield the entries of a folder that count, by name, folders before their content.

    Last part: a descriptor of the folder that contains the entry, valid until the next iteration.
    """
    found = 0
    left: List[str] = [""]
    with suppress(FileNotFoundError), opened(folder) as top:
        while left:
            inside = left.pop()
            for entry, status, fd in _entries_in(top, inside):
                name = f"{inside}/{entry}" if inside else entry
                found += 1
                if found > MAX_ENTRIES or name.count("/") >= _MAX_DEPTH:
                    raise ArchiveRefused(
                        f"it has more than {MAX_ENTRIES} files and folders, "
                        f"or they are nested more than {_MAX_DEPTH} deep"
                    )
                if stat.S_ISDIR(status.st_mode):
                    left.append(name)
                yield name, status, fd


def _entries_in(top: int, name: str) -> Iterator[Tuple[str, os.stat_result, int]]:
    """Yield the entries of one folder that count; none if it is gone or not a folder now."""
    with ExitStack() as stack:
        try:
            fd = stack.enter_context(opened_below(top, name.split("/") if name else ()))
        except OSError as error:
            if error.errno in _GONE:
                return
            raise
        with os.scandir(fd) as scanned:
            names = [entry.name for entry in islice(scanned, MOST_NAMES + 1)]
        if len(names) > MOST_NAMES:
            raise ArchiveRefused(f"it has a folder with more than {MOST_NAMES} names")
        for entry in sorted(names):
            if entry.startswith("."):
                continue
            try:
                status = os.stat(entry, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode):
                yield entry, status, fd


def _content(inside: int, name: str, most: int) -> Optional[bytes]:
    """Return the content of a regular file, at most one byte more than `most`.

    None if it has vanished or become something else.
    """
    try:
        file = os.open(name, READ_SAFELY, dir_fd=inside)
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise
    with os.fdopen(file, "rb") as stream:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return None
        return stream.read(max(0, most) + 1)


def _unreadable(error: Exception) -> ArchiveRefused:
    of_node = isinstance(error, OSError) and error.errno in OF_THE_NODE
    return (ArchiveUnreadable if of_node else ArchiveRefused)(f"it cannot be read: {error}")
