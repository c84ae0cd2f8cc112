"""Limit of the files that this process may have open, for a while."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def room_for(files: int) -> Iterator[None]:
    """Allow so many further files to be open at a time."""
    free = [os.dup(0) for _ in range(files + 1)]
    for file in free:
        os.close(file)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(free), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
