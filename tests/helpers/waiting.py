"""Waiting for a condition, and free ports."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable
from glob import glob
from pathlib import Path

#: Seconds that a busy machine may add to anything. What a test calls late takes longer still.
BUSY_S = 20.0

#: Seconds after which a wait has failed: less than the limit against hangs, which explains nothing.
PATIENCE_S = 100.0

#: Below the ephemeral range. Processes that begin together, whose numbers follow each other, begin
#: far apart.
_FIRST, _NUMBER = 20_000, 12_768
_PORTS = (_FIRST + (os.getpid() * 1_237 + n) % _NUMBER for n in range(_NUMBER))


def wait_until(
    predicate: Callable[[], object],
    *,
    timeout_s: float = PATIENCE_S,
    on_timeout: Callable[[], str] = lambda: "",
) -> None:
    """Poll until the predicate is true; after the timeout fail with the text of `on_timeout`."""
    deadline = time.monotonic() + timeout_s
    while not predicate():
        if time.monotonic() > deadline:
            said = on_timeout()
            raise AssertionError(f"not within {timeout_s} s: {predicate} {said}")
        time.sleep(0.01)


def is_there(folder: Path, pattern: str) -> bool:
    """Return whether a file matches, though folders may go meanwhile: `Path.glob` fails then."""
    return bool(glob(str(folder / pattern)))  # noqa: PTH207


async def until(predicate: Callable[[], object], timeout_s: float = 0.9 * PATIENCE_S) -> None:
    """Do so in a coroutine."""
    deadline = time.monotonic() + timeout_s
    while not predicate():
        assert time.monotonic() < deadline, f"not within {timeout_s} s"
        await asyncio.sleep(0.005)


def free_port() -> int:
    """Return a free port outside the ephemeral range; never the same one twice."""
    for port in _PORTS:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")
