"""Cache of shared inputs on disk: fetched once per node, verified, kept for later tasks and agents.

All agents of a user on a node share one folder. A complete file is named by its SHA-256 and
read-only. A file in transfer has the suffix `.part`. It stays when the transfer breaks or the
process is killed, and the next transfer resumes there.

Locks (flock) belong to open files and vanish with their processes. A process that fetches locks the
partial file exclusively, and the others wait for it. A process that uses a file holds a shared lock
on it. Only files that can be locked exclusively are removed to make room. A lock counts only if the
name still refers to the locked file.

A payload can lock any file that it can read, also in a container, and keep the lock. So nothing
waits for a lock without end: a complete file is then used without one, and a partial file that does
not grow is given up.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Callable, List, Optional, Tuple

from taskq_agent.errors import Refused, TransportFailed
from taskq_agent.locks import lock_at_once
from taskq_agent.protocol import Input
from taskq_agent.transport import Blobs

CACHE_BYTES = 20 << 30

#: Names another folder for the cache.
_OPTION = "--cache"
_DIGEST = re.compile("[0-9a-f]{64}")
_NAME = re.compile(r"[0-9a-f]{64}(\.part)?")
_POLL_S = 0.1
_MOMENT_S = 2.0
_STALLED_S = 120.0
_CHUNK = 1 << 20
_SAFELY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_COMPLETE = os.O_RDONLY | _SAFELY
_TO_REMOVE = os.O_RDWR | _SAFELY
_PARTIAL = os.O_RDWR | os.O_APPEND | os.O_CREAT | _SAFELY


def default_cache() -> Path:
    """Return the folder that agents of this user share by default."""
    parent = os.environ.get("XDG_CACHE_HOME") or tempfile.gettempdir()
    return Path(parent).absolute() / f"taskq-inputs-{os.geteuid()}"


class InputCache:
    """The inputs in one folder. Safe for any number of processes and threads."""

    def __init__(self, folder: Path, blobs: Blobs, *, max_bytes: int = CACHE_BYTES) -> None:
        """Note the folder, which is made when it is needed.

        max_bytes: beyond this, the files unused for longest are removed before a fetch. Files in
        use stay, even if they exceed it.
        """
        self._folder = folder
        self._blobs = blobs
        self._max_bytes = max_bytes

    def hold(self, wanted: Input, pause: Callable[[float], None]) -> Tuple[Path, int]:
        """Return the path of an input, and a file descriptor that keeps the input while it is open.

        pause: called with seconds to wait, often with 0; an exception that it raises ends the wait.

        Raises TransportFailed if the transfer broke; calling again resumes it. Raises Refused if
        there is no such blob or a damaged one, OSError if the folder or the disk is unusable, or
        another process keeps an unfinished file that does not grow.
        """
        if not _DIGEST.fullmatch(wanted.digest):
            raise Refused(f"{wanted.digest!r:.80} is not the digest of an input")
        self._prepare()
        path = self._folder / wanted.digest
        unfinished = Path(f"{path}.part")
        begun = grown_at = time.monotonic()
        size = -1
        while True:
            now = time.monotonic()
            try:
                complete = _open_complete(path, wanted.size, locked=now < begun + _MOMENT_S)
            except BlockingIOError:
                pause(_POLL_S)
                continue
            if complete is not None:
                return path, complete
            partial = _open_partial(unfinished)
            if partial is not None:
                try:
                    if _is_complete(path, wanted.size):  # finished just now
                        unfinished.unlink()
                    else:
                        self._make_room(wanted)
                        self._fetch(partial, wanted, pause)
                        unfinished.rename(path)  # also over an unusable file, which others may use
                        os.fchmod(partial, 0o400)
                        continue
                finally:
                    os.close(partial)
            elif size != (size := _size_of(unfinished)):
                grown_at = now
            elif now > grown_at + _STALLED_S:
                text = f"{unfinished} does not grow, and another process keeps it"
                raise OSError(errno.EBUSY, text)
            pause(_POLL_S)

    def _prepare(self) -> None:
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            self._folder.mkdir(0o700)
        status = self._folder.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(f"{self._folder} is not a folder")
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise PermissionError(
                f"others may write to {self._folder}, so its content cannot be trusted; "
                "name another folder for the cache of inputs"
            )

    def _fetch(self, partial: int, wanted: Input, pause: Callable[[float], None]) -> None:
        """Complete a partial file; verify the existing part with the rest."""
        begun = size = os.fstat(partial).st_size
        hashed = hashlib.sha256()
        while chunk := os.read(partial, _CHUNK):
            hashed.update(chunk)
            pause(0)
        if size < wanted.size:
            for chunk in self._blobs.read_blob(wanted.digest, size):
                _write(partial, chunk)
                hashed.update(chunk)
                size += len(chunk)
                if size > wanted.size:
                    break
                pause(0)
        if size < wanted.size:
            raise TransportFailed(f"{size} of {wanted.size} bytes of an input came")
        if hashed.hexdigest() != wanted.digest or size > wanted.size:
            os.ftruncate(partial, 0)
            if not begun:  # the queue would send the same again
                raise Refused(
                    f"the stored file is damaged: it is not {wanted.digest}; add it again"
                )
            raise TransportFailed(f"an input came that is not {wanted.digest}; fetching it again")
        os.fsync(partial)

    def _make_room(self, wanted: Input) -> None:
        files: List[Tuple[int, int, Path]] = []
        for entry in os.scandir(self._folder):
            with suppress(FileNotFoundError):
                if _NAME.fullmatch(entry.name) and not entry.name.startswith(wanted.digest):
                    status = entry.stat(follow_symlinks=False)
                    files.append((status.st_mtime_ns, status.st_size, Path(entry.path)))
        total = wanted.size + sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self._max_bytes:
                break
            if _removed(path):
                total -= size


def _size_of(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return -1


def _open_complete(path: Path, size: int, *, locked: bool) -> Optional[int]:
    """Open and share-lock a complete file; None if there is none of this size.

    locked: raise BlockingIOError if another process has locked it exclusively. Else it is opened
    without a lock.
    """
    try:
        file = os.open(path, _COMPLETE)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno != errno.ELOOP:  # ELOOP: a symbolic link, which is unusable
            raise
        path.unlink(missing_ok=True)
        return None
    try:
        try:
            lock_at_once(file, fcntl.LOCK_SH, _OPTION)
        except BlockingIOError:
            if locked:
                raise
        if not _is_ours(file, path) or os.fstat(file).st_size != size:
            return None
        os.utime(file)
        opened, file = file, -1
        return opened
    finally:
        if file != -1:
            os.close(file)


def _is_complete(path: Path, size: int) -> bool:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == size


def _open_partial(path: Path) -> Optional[int]:
    """Open or create a partial file and lock it exclusively; None if another process has it."""
    try:
        file = os.open(path, _PARTIAL, 0o600)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        path.unlink(missing_ok=True)
        return None
    try:
        lock_at_once(file, fcntl.LOCK_EX, _OPTION)
        if _is_ours(file, path):
            opened, file = file, -1
            return opened
        return None
    except BlockingIOError:
        return None
    finally:
        if file != -1:
            os.close(file)


def _removed(path: Path) -> bool:
    """Remove a file that is not in use; return whether it is gone."""
    try:
        file = _open_to_remove(path)
        try:
            lock_at_once(file, fcntl.LOCK_EX, _OPTION)
            if not _is_ours(file, path):
                return False
            path.unlink()
        finally:
            os.close(file)
    except OSError:
        return False
    return True


def _open_to_remove(path: Path) -> int:
    """Open a file for writing: NFS gives an exclusive lock on no other file."""
    try:
        return os.open(path, _TO_REMOVE)
    except PermissionError:  # it is complete, and so read-only
        file = os.open(path, _COMPLETE)
    try:
        mode = stat.S_IMODE(os.fstat(file).st_mode)
        os.fchmod(file, mode | stat.S_IWUSR)
        try:
            return os.open(path, _TO_REMOVE)
        finally:
            os.fchmod(file, mode)
    finally:
        os.close(file)


def _is_ours(file: int, path: Path) -> bool:
    """Return whether an open file still has this name; PermissionError unless regular and ours."""
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        raise PermissionError(f"{path} is not an ordinary file of ours")
    try:
        return os.path.samestat(status, path.lstat())
    except FileNotFoundError:
        return False


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]
