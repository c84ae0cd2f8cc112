"""Files of large results that wait in a spool, each named by its attempt; see `kept_results`."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from pathlib import Path

from taskq_agent.paths import is_dir
from taskq_agent.protocol import Held
from taskq_agent.transport import MAX_BLOB_BYTES

SUFFIX = ".result"

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_OTHER = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def make_own_folder(folder: Path) -> None:
    """Make a folder of this user in another one; OSError if either is somebody else's."""
    for path in (folder.parent, folder):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise PermissionError(f"{path} is not a folder of this user; name one by --spool")


def path_of(folder: Path, held: Held) -> Path:
    """Return the file of the result of an attempt."""
    return folder / f"{held.lease}-{held.campaign}-{held.task}{SUFFIX}"


def keep(folder: Path, held: Held, data: bytes) -> None:
    """Leave a result for the next agent of this spool; OSError if there is no room for it."""
    if not is_dir(folder):
        make_own_folder(folder)
    path = path_of(folder, held)
    unfinished = path.with_suffix(f"{SUFFIX}.new")
    with contextlib.suppress(FileNotFoundError):
        unfinished.unlink()
    try:
        with os.fdopen(os.open(unfinished, _NEW, 0o600), "wb") as file:
            file.write(data)
        unfinished.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise


def read(path: Path, digest: str, size: int) -> bytes:
    """Return the content of a file, of this digest and size; ValueError if it has another."""
    with os.fdopen(os.open(path, _OTHER), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size != size or size > MAX_BLOB_BYTES:
            raise ValueError(f"{path} is not the file that was written")
        data = file.read(size + 1)
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"{path} has been changed")
    return data
