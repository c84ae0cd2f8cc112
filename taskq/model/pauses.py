"""Pauses of a waiting thread, which another thread can end."""

from __future__ import annotations

import threading
import time
from contextvars import ContextVar
from typing import Final

#: Set in a thread that works for a caller who may give up waiting; giving up sets the event.
GIVEN_UP: Final[ContextVar[threading.Event | None]] = ContextVar("GIVEN_UP", default=None)


class GaveUp(BaseException):
    """The caller gave up waiting for this thread."""


def sleep(seconds: float) -> None:
    """Pause for so long; raise `GaveUp` if the caller gives up."""
    given_up = GIVEN_UP.get()
    if given_up is None:
        time.sleep(seconds)
    elif given_up.wait(seconds):
        raise GaveUp
