"""Processors of a slot: everything that its tasks start runs there, and nowhere else."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import Iterator, Optional

from taskq_agent.resources import Resources


@contextmanager
def own_cores(share: Resources, wanted: Optional[int]) -> Iterator[None]:
    """Keep this thread, and so the children that it starts, on so many cores of the share.

    wanted: None means any cores. A thread has its own affinity, which a fork inherits: no code runs
    between the fork and the start of a program.
    """
    if wanted is None or not share.cores:
        yield
        return
    before = os.sched_getaffinity(0)
    with suppress(OSError):  # a batch system has taken some away
        os.sched_setaffinity(0, share.cores[:wanted])
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, before)
