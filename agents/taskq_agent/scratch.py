"""Folders in which payloads write: how the agent opens and removes them. `folders` gives them out.

A payload in a container may write to one folder and sees nothing else of the node. The agent sees
everything: a link that the payload puts in place of a folder would lead it astray. So no link is
followed, and nothing is opened by a path of which a payload may have replaced a part.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Iterable, Iterator, List

#: What a task's folder contains: its result, if it is large; the progress of the attempt; the
#: checkpoint and the output files, if the campaign keeps them.
RESULT_FILE = "taskq-result.json"
PROGRESS_FILE = "taskq-progress"
CHECKPOINT_FOLDER = "taskq-checkpoint"
OUTPUT_FOLDER = "taskq-out"

#: Flags to open a file that a payload may have replaced: opening a FIFO would block, and a link may
#: lead to what the payload could not read itself.
READ_SAFELY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_LINK = _FOLDER | os.O_NOFOLLOW

MOST_FOLDERS = 1_000_000
_TRIES = 3
OWNER_ONLY = 0o700
_PATH = getattr(os, "O_PATH", None)  # of Linux

log = logging.getLogger(__name__)


@contextmanager
def opened(folder: str) -> Iterator[int]:
    """Give a descriptor of a folder; neither it nor its parent may be a link.

    Nothing above can be replaced by a payload in a container. Raises OSError.
    """
    above, name = os.path.split(folder)
    root, parent = os.path.split(above)
    base = os.open(root or ".", _FOLDER)
    try:
        with opened_below(base, [part for part in (parent, name) if part]) as fd:
            yield fd
    finally:
        os.close(base)


@contextmanager
def opened_below(top: int, parts: Iterable[str]) -> Iterator[int]:
    """Give a descriptor of a folder by its path below an open one; no part may be a link.

    Raises OSError.
    """
    fd = os.dup(top)
    try:
        for part in parts:
            above = fd
            try:
                fd = os.open(part, _NO_LINK, dir_fd=above)
            except NotADirectoryError:
                text = "is no folder, but a file or a link"
                raise NotADirectoryError(errno.ENOTDIR, text, part) from None
            finally:
                if fd != above:
                    os.close(above)
        yield fd
    finally:
        os.close(fd)


def remove(path: str) -> None:
    """Remove a folder with its content; what cannot be removed is logged and stays.

    Payloads leave trees that are read-only, closed, or thousands of folders deep. If one has
    replaced the folder with a link, only the link goes, not its target.
    """
    above, name = os.path.split(path)
    try:
        try:
            Path(path).rmdir()  # mostly it is empty by now
            return
        except PermissionError:
            reopen(above)
        except FileNotFoundError:
            return
        except OSError:
            pass
        base = os.open(above, _FOLDER)
        try:
            _remove_below(base, name)
        finally:
            os.close(base)
    except FileNotFoundError:  # the payload has removed it, or what it was in
        pass
    except OSError as error:
        log.warning("scratch folder %s could not be removed: %s", path, error)


def reopen(folder: str) -> None:
    """Restore the owner's rights to a folder of this user, and to those above that are his too.

    A payload that runs as this user may have taken them away.
    """
    for place in (*reversed(Path(folder).parents), Path(folder)):
        with suppress(OSError):
            status = place.stat()
            if status.st_uid == os.geteuid() and status.st_mode & OWNER_ONLY != OWNER_ONLY:
                place.chmod(stat.S_IMODE(status.st_mode) | OWNER_ONLY)


def _remove_below(above: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=above)  # a link or a file in its place
        return
    except FileNotFoundError:
        return
    except OSError:
        pass
    for left in reversed(range(_TRIES)):  # a process that a payload has left may still make files
        top = _entered(name, above)
        try:
            _empty(top)
        finally:
            os.close(top)
        try:
            os.rmdir(name, dir_fd=above)
            return
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or not left:
                raise


def _empty(top: int) -> None:
    """Empty a folder. Those within others are moved up first: no path and no stack gets long."""
    folders, unique, moved = _without_files(top), os.urandom(8).hex(), 0
    while folders:
        name = folders.pop()
        inside = _entered(name, top)
        try:
            for inner in _without_files(inside):
                moved += 1
                if moved > MOST_FOLDERS:
                    raise OSError(errno.EFBIG, f"it has more than {MOST_FOLDERS} folders")
                folders.append(f"{unique}-{moved}")
                try:
                    os.rename(inner, folders[-1], src_dir_fd=inside, dst_dir_fd=top)
                except PermissionError:  # what is moved must be writable, too
                    _allow(inner, inside)
                    os.rename(inner, folders[-1], src_dir_fd=inside, dst_dir_fd=top)
        finally:
            os.close(inside)
        os.rmdir(name, dir_fd=top)


def _without_files(folder: int) -> List[str]:
    """Remove files and links; return the names of the folders that are left."""
    folders = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            else:
                os.unlink(entry.name, dir_fd=folder)
    return folders


def _entered(name: str, above: int) -> int:
    """Open a folder with all rights of its owner; no link is followed."""
    try:
        fd = os.open(name, _NO_LINK, dir_fd=above)
    except PermissionError:
        _allow(name, above)
        fd = os.open(name, _NO_LINK, dir_fd=above)
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    if mode & OWNER_ONLY != OWNER_ONLY:
        with suppress(OSError):
            os.fchmod(fd, mode | OWNER_ONLY)
    return fd


def _allow(name: str, above: int) -> None:
    if _PATH is None:
        os.chmod(name, OWNER_ONLY, dir_fd=above, follow_symlinks=False)
        return
    fd = os.open(name, _PATH | _NO_LINK, dir_fd=above)
    try:
        os.chmod(f"/proc/self/fd/{fd}", OWNER_ONLY)  # noqa: PTH101 - by number
    finally:
        os.close(fd)
