"""Folders of a slot's tasks: the one place that gives them out.

Each slot has a place below the root, and in it a folder for each task, or for as long as a child
lives. Names are drawn at random, and none is used again: nobody can make a folder, a link or a file
ahead of the agent, and a process that a task has left behind writes no file of a later task.

A payload without a container runs as the agent's user. So it may close or remove any of these
folders, its own, the slot's or the root. Then the agent takes back its rights, makes another place,
and if that fails one elsewhere on this machine.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import platform
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Protocol, Set, Tuple

from taskq_agent import scratch, strays
from taskq_agent.paths import is_link

MIN_FREE_BYTES = 1 << 20

_ELSEWHERE = ("/tmp", "/var/tmp")  # noqa: S108 - the names below them are drawn
_LOCKED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

log = logging.getLogger(__name__)


class Register(Protocol):
    """Knows what must go if the agent is killed; see `reaper.Reaper`."""

    def add(self, kind: str, thing: str) -> None:
        """Register a thing."""

    def drop(self, kind: str, thing: str) -> None:
        """Remove a registration."""


class _DiskFull(OSError):
    """Another folder on the same disk is no better."""


class _Place(NamedTuple):
    path: str
    lock: int


class SlotFolders:
    """Gives out the folders of one slot, accessible to their owner only.

    root: None means the system's folder for temporary files. keep: never remove anything.
    elsewhere: whether other folders of this machine will do if the root does not.
    """

    def __init__(
        self,
        root: Optional[Path],
        slot: int,
        *,
        keep: bool,
        register: Optional[Register] = None,
        elsewhere: bool = True,
    ) -> None:
        usual = tempfile.gettempdir()
        first = str(Path(root or usual).absolute())
        self._roots = tuple(dict.fromkeys((first, usual, *_ELSEWHERE))) if elsewhere else (first,)
        self._prefix = f"{_prefix(keep=keep)}{os.getpid()}-{slot}-"
        self._keep = keep
        self._register = None if keep else register
        self._places: Dict[str, _Place] = {}
        self._former: List[_Place] = []
        self._out: Set[str] = set()
        self._root = first
        #: How often new folders came to be in another root.
        self.moves = 0

    def take(self, name: str, *parts: str, within: Optional[str] = None) -> str:
        """Return the path of a new folder that holds nothing but the folders `parts`.

        within: a folder that was taken before. Raises OSError if the disk is full or the folder
        cannot be made, without `within` anywhere on this machine.
        """
        if within is not None:
            return self._made(within, name, parts)
        problem: Optional[OSError] = None
        for root in self._roots:
            try:
                path = self._made_below(root, name, parts)
            except OSError as error:  # noqa: PERF203 - it seldom happens
                problem = problem or error
            else:
                if root != self._root:
                    self._root = root
                    self.moves += 1
                    log.warning("scratch folders are in %s now: %s", root, problem or "as at first")
                return path
        raise problem or OSError("there is no folder for temporary files")

    def give_back(self, path: str) -> None:
        """Remove a folder that was taken."""
        self._out.discard(path)
        if not self._keep:
            scratch.remove(path)
            for place in [former for former in self._former if not self._is_in_use(former)]:
                self._former.remove(place)
                self._close(place)

    def close(self) -> None:
        """Remove everything."""
        for place in (*self._places.values(), *self._former):
            self._close(place)
        self._places.clear()
        self._former.clear()

    def _made(self, place: str, name: str, parts: Tuple[str, ...]) -> str:
        usage = os.statvfs(place)
        free = usage.f_bavail * usage.f_frsize
        if free < MIN_FREE_BYTES:
            raise _DiskFull(f"{place}: only {free} bytes are free on this disk")
        path = tempfile.mkdtemp(prefix=f"{name}-", dir=place)
        try:
            for part in parts:
                Path(path, part).mkdir(scratch.OWNER_ONLY)
        except OSError:
            scratch.remove(path)
            raise
        self._out.add(path)
        return path

    def _made_below(self, root: str, name: str, parts: Tuple[str, ...]) -> str:
        try:
            return self._made(self._place(root), name, parts)
        except _DiskFull:
            raise
        except OSError:
            if root in self._places:
                self._former.append(self._places.pop(root))
            scratch.reopen(root)
            return self._made(self._place(root), name, parts)

    def _place(self, root: str) -> str:
        if root not in self._places:
            self._places[root] = self._begun(root)
        return self._places[root].path

    def _begun(self, root: str) -> _Place:
        """Make a place; its lock shows other agents that this one lives."""
        Path(root).mkdir(parents=True, exist_ok=True)
        path = tempfile.mkdtemp(prefix=self._prefix, dir=root)
        if self._register is not None:
            self._register.add("folder", path)
        lock = os.open(path, _LOCKED)
        with suppress(OSError):  # as on some network file systems
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return _Place(path, lock)

    def _is_in_use(self, place: _Place) -> bool:
        return any(path.startswith(f"{place.path}/") for path in self._out)

    def _close(self, place: _Place) -> None:
        if not self._keep:
            scratch.remove(place.path)
        if self._register is not None:
            self._register.drop("folder", place.path)
        os.close(place.lock)


def _prefix(*, keep: bool) -> str:
    """Return how the names of places on this machine begin: others may share the file system."""
    seen = [platform.node()]
    with suppress(OSError):
        seen.append(Path("/etc/machine-id").read_text())
    machine = hashlib.sha256("\0".join(seen).encode(errors="surrogateescape")).hexdigest()[:6]
    return f"taskq-{'kept-' * keep}{machine}-"


def remove_leftovers(root: Optional[Path]) -> None:
    """Remove what agents of this user that are gone have left: their processes, then their folders.

    The agents' reapers do that, unless they were killed too. A folder that anybody holds a lock on
    stays, and so does one whose lock cannot be tried.
    """
    strays.kill_orphaned()
    parent = str(Path(root or tempfile.gettempdir()).absolute())
    with suppress(OSError):
        for found in Path(parent).glob(f"{_prefix(keep=False)}*"):
            with suppress(OSError):
                _remove_leftover(str(found))


def _remove_leftover(path: str) -> None:
    if not is_link(Path(path)):
        scratch.reopen(path)
    lock = os.open(path, _LOCKED)
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            log.info("removing %s, which an agent that is gone has left", path)
            strays.kill_inside(path)
            scratch.remove(path)
    finally:
        os.close(lock)
