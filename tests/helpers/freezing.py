"""Servers that are frozen: they do nothing, while the kernel keeps their connections open."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def frozen(data: Path, *others: int) -> Iterator[None]:
    """Freeze the PostgreSQL that runs on a data directory meanwhile; others: further processes."""
    postmaster = int((data / "postmaster.pid").read_text().splitlines()[0])
    stopped = [*others, postmaster]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    # There will be no new ones: their parent is frozen.
    children = [int(path.name) for path in Path("/proc").iterdir() if _parent(path) == postmaster]
    try:
        _send(signal.SIGSTOP, children)
        yield
    finally:
        _send(signal.SIGCONT, stopped + children)


def _send(number: int, pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0
