"""Pauses of whoever waits, which another thread can end."""

from __future__ import annotations

import threading
import time
from contextvars import ContextVar
from typing import Final

#: Set in a thread that works for somebody who may give up waiting; tells when that has happened.
GIVEN_UP: Final[ContextVar[threading.Event | None]] = ContextVar("GIVEN_UP", default=None)


class GaveUp(BaseException):
    """Nobody waits any more for what this thread does."""


def sleep(seconds: float) -> None:
    """Pause for so long; raise `GaveUp` if that is so."""
    given_up = GIVEN_UP.get()
    if given_up is None:
        time.sleep(seconds)
    elif given_up.wait(seconds):
        raise GaveUp
