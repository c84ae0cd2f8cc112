"""Scratch folders: one per slot, in it one per task, removed whatever a task left there.

`opened` and `opened_below` open folders that a payload may have replaced, and follow no link.

A payload in a container may write to the folder of its slot and sees nothing else of the node. The
agent sees everything: a link that the payload puts in place of a folder would lead it astray.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Iterable, Iterator, Optional

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


@contextmanager
def opened(folder: str) -> Iterator[int]:
    """Give a descriptor of a folder; neither it nor its parent may be a link.

    Everything above is the slot's, and no payload can replace it. Raises OSError.
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


MIN_FREE_BYTES = 1 << 20

_OWNER_ONLY = 0o700

log = logging.getLogger(__name__)


class SlotFolder:
    """The folder of one slot, accessible to its owner only, with the folders of its tasks.

    keep: never remove these folders.
    """

    def __init__(self, root: Optional[Path], slot: int, *, keep: bool) -> None:
        """Make the folder; OSError if that fails."""
        parent = Path(root or tempfile.gettempdir()).absolute()
        parent.mkdir(parents=True, exist_ok=True)
        self.path = tempfile.mkdtemp(prefix=f"taskq-{os.getpid()}-{slot}-", dir=parent)
        self._keep = keep
        self._made = 0

    def take(self, name: str) -> str:
        """Return the path of an empty folder, whose name is never used again.

        So a process that a task has left behind writes no file of a later task. Raises OSError if
        the disk is full or the folder cannot be made.
        """
        usage = os.statvfs(self.path)
        free = usage.f_bavail * usage.f_frsize
        if free < MIN_FREE_BYTES:
            raise OSError(f"{self.path}: only {free} bytes are free on this disk")
        self._made += 1
        path = f"{self.path}/{self._made}-{name}"
        Path(path).mkdir(_OWNER_ONLY)
        return path

    def give_back(self, path: str) -> None:
        """Remove a folder."""
        if not self._keep:
            remove(path)

    def close(self) -> None:
        """Remove everything."""
        if not self._keep:
            remove(self.path)


def remove(path: str) -> None:
    """Remove a folder with its content; what cannot be removed is logged and stays.

    If a payload has replaced the folder with a link, only the link goes, not its target.
    """
    with suppress(OSError):  # mostly it is empty by now
        Path(path).rmdir()
        return
    if Path(path).is_symlink():
        with suppress(OSError):
            Path(path).unlink()
    with suppress(RecursionError):  # before Python 3.13, at some hundred nested folders
        shutil.rmtree(path, ignore_errors=True)
        if os.path.lexists(path):
            _open_up(path)
            shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        log.warning("scratch folder %s could not be removed", path)


def _open_up(path: str) -> None:
    """Restore the permissions of the owner to remove things: payloads copy read-only trees."""
    _allow(Path(path))
    for folder, names, _ in os.walk(path):
        for name in names:  # before the walk goes down there
            _allow(Path(folder, name))


def _allow(folder: Path) -> None:
    with suppress(OSError):
        if not folder.is_symlink():
            folder.chmod(_OWNER_ONLY)
