"""Home: the folder of an embedded server.

    data/        PostgreSQL's own: written by its processes only, 0700
    conf/        what taskq and the user set
    run/         the socket, unless the path is too long for one
    runtime/     a copy of the binaries, where the server's account needs one
    server.log   PostgreSQL's output; server.log.1 is the log before it
    server.json  the version that started last, and its host
    redis.json   where the front's Redis listens, if one was started; redis.log, redis-runtime/
    password     of the database role `taskq`, for TCP connections
    lock         held while a server is started or stopped

Root's configuration is outside `data`, which belongs to an unprivileged user: a symbolic link
there could redirect root's writes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from taskq.embedded.account import ROOT_UID, Account, user_name
from taskq.model.errors import ServerUnsuitable, Unavailable, UsageError
from taskq_agent.paths import exists, is_dir
from taskq_agent.text import is_unicode

ROOT_HOME: Final = Path("/var/lib/taskq")
LOCK_TIMEOUT_S: Final = 180.0
MAX_SOCKET_PATH_BYTES: Final = 107
LONGEST_SOCKET_NAME: Final = "/.s.PGSQL.65535"

_UNUSABLE: Final = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR),
    *(errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP, errno.EOPNOTSUPP, errno.EINVAL),
    errno.ENOENT,  # /proc gives this
}


def default_home() -> Path:
    """Return TASKQ_HOME, else /var/lib/taskq for root and the user's data directory for others."""
    named = os.environ.get("TASKQ_HOME")
    if named and not is_unicode(named):
        raise UsageError("TASKQ_HOME has bytes that are not UTF-8, which PostgreSQL's clients need")
    if named:
        return Path(named)
    if os.geteuid() == ROOT_UID:
        return ROOT_HOME
    shared = Path(os.environ.get("XDG_DATA_HOME", ""))
    if shared.is_absolute():
        return shared / "taskq"
    try:
        return Path.home() / ".local/share/taskq"
    except RuntimeError:
        raise UsageError(
            f"user id {os.geteuid()} has no home directory: set TASKQ_HOME to a directory"
        ) from None


class Home:
    """The paths of a home, their checks and their lock."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self.data: Final = path / "data"
        self.conf: Final = path / "conf"
        self.runtime: Final = path / "runtime"
        self.log: Final = path / "server.log"
        self.state: Final = path / "server.json"
        self.password: Final = path / "password"
        self.reserve: Final = path / "reserve"
        self.redis_runtime: Final = path / "redis-runtime"
        self.redis_log: Final = path / "redis.log"
        self.redis_state: Final = path / "redis.json"

    def check_owner(self) -> None:
        """Refuse a home that belongs to another user."""
        with contextlib.suppress(OSError):
            owner = self.path.stat().st_uid
            if owner != os.geteuid():
                name = user_name(owner)
                raise ServerUnsuitable(
                    f"{self.path} belongs to user {name!r}: run taskq as that user, or set "
                    "TASKQ_HOME to a new directory, which taskq makes"
                )

    def make(self, account: Account) -> None:
        """Create the home if it is absent; do not change existing files."""
        self.check_owner()
        way = (self.path, *self.path.parents)
        absent = [path for path in way if not exists(path)]
        account.check_reaches(way[len(absent)])
        for path in reversed(absent):
            make_directory(path, 0o755 if account.is_other else 0o700)

    @contextlib.contextmanager
    def usable(self) -> Iterator[None]:
        """Turn the operating system's errors about the home into taskq's."""
        try:
            yield
        except OSError as error:
            if error.errno in {errno.EACCES, errno.EPERM}:
                self.check_owner()
            where = error.filename or self.path
            what = f"{where}: {error.strerror or error}"
            if error.errno in _UNUSABLE:
                raise ServerUnsuitable(
                    f"{what}: set TASKQ_HOME to a directory that you may create or write in"
                ) from None
            is_full = error.errno in {errno.ENOSPC, errno.EDQUOT}
            advice = (
                "free some space, or set TASKQ_HOME to another disk" if is_full else "try again"
            )
            raise Unavailable(f"{what}: {advice}") from None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the home for one process; the lock ends with the process, even if it is killed."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        lock = os.open(self.path / "lock", flags, 0o600)
        try:
            deadline = time.monotonic() + LOCK_TIMEOUT_S
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    pass
                except OSError as error:
                    raise ServerUnsuitable(
                        f"the file system of {self.path} has no locks ({error.strerror}), and no "
                        "database can be on it: set TASKQ_HOME to a directory on a local disk"
                    ) from None
                if time.monotonic() > deadline:
                    raise Unavailable(
                        f"another process has been starting or stopping the server of {self.path} "
                        f"for {LOCK_TIMEOUT_S:.0f} s: try again when it is done"
                    )
                time.sleep(0.02)
            yield
        finally:
            os.close(lock)

    def make_socket_dir(self, account: Account) -> Path:
        """Return a private folder for the socket, whose path fits into a socket's address.

        It is in the home if that fits, else in a folder for temporary files. $XDG_RUNTIME_DIR is
        the last choice: it goes away when the user logs out, but the server stays.
        """
        inside = self.path / "run"
        if _fits_socket(inside):
            return _make_private(inside, account)
        digest = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]
        for base in ("/tmp", "/var/tmp", os.environ.get("XDG_RUNTIME_DIR")):  # noqa: S108 - private
            outside = Path(base or "", f"taskq-{account.uid}-{digest}")
            if outside.is_absolute() and _fits_socket(outside):
                with contextlib.suppress(OSError):
                    return _make_private(outside, account)
        raise Unavailable(
            f"{inside} is too long for a socket ({MAX_SOCKET_PATH_BYTES} bytes at most), and "
            "there is no folder for temporary files: set TASKQ_HOME to a shorter path"
        )

    def stored(self) -> list[Path]:
        """Return the paths that taskq has made for this home, and no others."""
        inside = [
            *(self.data, self.conf, self.runtime, self.path / "run", self.redis_runtime),
            *(self.state, self.password, self.redis_log, self.redis_state, self.path / "lock"),
            *(self.log, self.log.with_name("server.log.1"), self.reserve),
        ]
        staged = self.path.glob(".taskq-*")
        return [path for path in (*inside, *staged, *self._socket_dirs()) if exists(path)]

    def _socket_dirs(self) -> Iterator[Path]:
        """Yield the folders outside the home that a socket may be in."""
        digest = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]
        for base in ("/tmp", "/var/tmp", os.environ.get("XDG_RUNTIME_DIR")):  # noqa: S108 - private
            if base and Path(base).is_absolute():
                yield from Path(base).glob(f"taskq-*-{digest}")


def read_state(path: Path) -> dict[str, Any]:
    """Return the content of the file about a server's last start; empty if there is none."""
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def write_file(path: Path, text: str, mode: int) -> None:
    """Write a whole file or none, even if the power fails, with exactly this mode."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "w", encoding="utf-8", errors="surrogateescape") as out:
        out.write(text)
        out.flush()
        os.fchmod(file, mode)
        os.fsync(file)
    unfinished.replace(path)


def make_directory(path: Path, mode: int) -> None:
    """Create a directory, if it is absent, with its mode from the first moment and any umask."""
    if is_dir(path):
        return
    try:
        fresh = Path(tempfile.mkdtemp(prefix=".taskq-", dir=path.parent))
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    fresh.chmod(mode)
    try:
        fresh.rename(path)
    except OSError:
        fresh.rmdir()
        if not is_dir(path):
            raise


def _fits_socket(folder: Path) -> bool:
    # For libpq, a comma ends a host's name.
    path = os.fsencode(folder)
    return b"," not in path and len(path) + len(LONGEST_SOCKET_NAME) <= MAX_SOCKET_PATH_BYTES


def _make_private(folder: Path, account: Account) -> Path:
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    owners = {account.uid, os.geteuid()}
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in owners or found.st_mode & 0o077:
        raise ServerUnsuitable(
            f"{folder} is not a folder of user {account.name!r} that is closed to others: remove "
            "it, or set TASKQ_HOME to a shorter path"
        )
    if found.st_uid != account.uid:
        os.chown(folder, account.uid, account.gid, follow_symlinks=False)
    return folder
