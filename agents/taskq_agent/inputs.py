"""Shared inputs on disk: fetched once per node, verified, kept for later tasks and agents.

All agents of a user on a node share one folder. A file that is complete is named by its SHA-256
and read-only; one that is being fetched has `.part` behind that, and stays when the transfer
breaks or the process is killed, so that the next one goes on where it ended.

Locks (flock) belong to open files and vanish with their processes. Who fetches locks the partial
file, and the others wait for it; who uses a file holds a shared lock on it, and only what can be
locked exclusively is removed to make room. A lock that was got counts only if the name still
stands for the file that is locked.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Callable, List, Optional, Tuple

from taskq_agent.errors import Refused, TransportFailed
from taskq_agent.protocol import Input
from taskq_agent.transport import Blobs

CACHE_BYTES = 20_000_000_000

_DIGEST = re.compile("[0-9a-f]{64}")
_NAME = re.compile(r"[0-9a-f]{64}(\.part)?")
_POLL_S = 0.1
_CHUNK = 1 << 20
_SAFELY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_COMPLETE = os.O_RDONLY | _SAFELY
_PARTIAL = os.O_RDWR | os.O_APPEND | os.O_CREAT | _SAFELY


def default_cache() -> Path:
    """Return the folder that agents of this user share unless told otherwise."""
    parent = os.environ.get("XDG_CACHE_HOME") or tempfile.gettempdir()
    return Path(parent).absolute() / f"taskq-inputs-{os.geteuid()}"


class InputCache:
    """The inputs in one folder. Any number of processes and threads may use it."""

    def __init__(self, folder: Path, blobs: Blobs, *, max_bytes: int = CACHE_BYTES) -> None:
        """Note where it is; the folder is made when it is needed.

        max_bytes: beyond this, what has not been used for longest is removed before something
        is fetched. What is in use stays, even if that is more.
        """
        self._folder = folder
        self._blobs = blobs
        self._max_bytes = max_bytes

    def hold(self, wanted: Input, pause: Callable[[float], None]) -> Tuple[Path, int]:
        """Return the path of an input, and a file descriptor: while it is open, the input stays.

        pause: called with seconds to wait, often with 0; what it raises ends the wait.

        Raises TransportFailed when the transfer broke, and goes on there when called again;
        Refused if there is no such blob; OSError if the folder or the disk is of no use.
        """
        if not _DIGEST.fullmatch(wanted.digest):
            raise Refused(f"{wanted.digest!r:.80} is no digest of an input")
        self._prepare()
        path = self._folder / wanted.digest
        while True:
            complete = _open_complete(path, wanted.size)
            if complete is not None:
                return path, complete
            unfinished = Path(f"{path}.part")
            partial = _open_partial(unfinished)
            if partial is not None:
                try:
                    if path.exists():  # finished just now; or of no use, but in use
                        unfinished.unlink()
                    else:
                        self._make_room(wanted)
                        self._fetch(partial, wanted, pause)
                        unfinished.rename(path)
                        os.fchmod(partial, 0o400)
                        continue
                finally:
                    os.close(partial)
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
        """Complete a partial file; what it has already is verified with the rest."""
        size = os.fstat(partial).st_size
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
            raise TransportFailed(f"an input came that is not {wanted.digest}; it is fetched anew")
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


def _open_complete(path: Path, size: int) -> Optional[int]:
    """Lock a complete file for use; None if there is none, or only one that is of no use."""
    try:
        file = os.open(path, _COMPLETE)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno != errno.ELOOP:  # not a symbolic link, which is of no use
            raise
        path.unlink(missing_ok=True)
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH)  # nobody locks it exclusively for more than a moment
        if not _is_ours(file, path):
            return None
        if os.fstat(file).st_size == size:
            os.utime(file)
            opened, file = file, -1
            return opened
    finally:
        if file != -1:
            os.close(file)
    _removed(path)
    return None


def _open_partial(path: Path) -> Optional[int]:
    """Lock a partial file, made if there is none, to go on with it; None if somebody else does."""
    try:
        file = os.open(path, _PARTIAL, 0o600)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        path.unlink(missing_ok=True)
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
    """Remove a file that nobody uses; tell whether it could be done."""
    try:
        file = os.open(path, _COMPLETE)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_ours(file, path):
                return False
            path.unlink()
        finally:
            os.close(file)
    except OSError:
        return False
    return True


def _is_ours(file: int, path: Path) -> bool:
    """Tell whether an open file is an ordinary one of ours, and still what the path names."""
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
