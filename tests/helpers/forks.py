"""Forked children of the test's own process."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

#: Seconds after which a child that hangs is no more.
CHILD_S = 60


def said_in_fork(call: Callable[[], object]) -> str:
    """Return what a call gives in a forked child, or its error; "" if it does not come back."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(CHILD_S)
        try:
            said = repr(call())
        except BaseException as error:  # noqa: BLE001  # nothing of the test goes on here
            said = repr(error)
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    try:
        return Path(f"/dev/fd/{read}").read_text()
    finally:
        os.close(read)
        os.waitpid(child, 0)
