"""Locks on open files (flock), which end with their processes."""

from __future__ import annotations

import errno
import fcntl
import os

_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})


def lock_at_once(file: int, operation: int, option: str) -> None:
    """Lock an open file without waiting; raises BlockingIOError if another process has it.

    Raises OSError where the file system has no locks, as some network file systems; it names the
    option that gives another folder.
    """
    try:
        fcntl.flock(file, operation | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        why = os.strerror(error.errno or 0)
        text = f"the file system has no locks ({why}); give {option} a folder on a local disk"
        raise OSError(error.errno, text) from None
