"""What may end an attempt early: a stop from outside, or its time limit."""

from __future__ import annotations

import math
import os
import select
import threading
import time
from contextlib import suppress
from typing import Optional

from taskq_agent.handlers.base import AttemptOver, Ended, failed
from taskq_agent.protocol import RELEASED

_FOREVER = float("inf")


class ChildWatch:
    """One per slot. `stop` and `wake` may be called from any thread, the rest is the slot's.

    fd: becomes readable when something has happened that a waiting slot must look at.
    """

    def __init__(self) -> None:
        self.fd, self._write_fd = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write_fd, False)
        self._poll = select.poll()
        self._poll.register(self.fd, select.POLLIN)
        self._lock = threading.Lock()
        self._stopped = False
        self._closed = False
        self._limit_s: Optional[float] = None
        self._end = _FOREVER

    def begin(self) -> None:
        """Begin an attempt, without a time limit yet."""
        self._stopped = False  # what came between two attempts was meant for the first
        self.limit(None)

    def limit(self, limit_s: Optional[float]) -> None:
        """Give the attempt so much time from now on; None: any."""
        self._limit_s = limit_s
        self._end = _FOREVER if limit_s is None else time.monotonic() + limit_s

    def stop(self) -> None:
        """Stop the attempt in hand."""
        self._stopped = True
        self.wake()

    def wake(self) -> None:
        """Make whoever waits for `fd` look again."""
        with self._lock, suppress(BlockingIOError):  # full of earlier calls: readable anyway
            if not self._closed:
                os.write(self._write_fd, b"!")

    def clear_wake(self) -> None:
        """Take back what made `fd` readable."""
        with suppress(BlockingIOError):
            os.read(self.fd, 4096)

    def check(self) -> None:
        """Raise AttemptOver if the attempt in hand may not go on."""
        if self._stopped:
            raise AttemptOver(Ended(RELEASED, error_class="stopped", error="stopped by its agent"))
        if time.monotonic() >= self._end:
            raise AttemptOver(
                failed("time-limit", f"exceeded its time limit of {self._limit_s:g} s", retry=True)
            )

    def pause(self, seconds: float) -> None:
        """Wait for so long; AttemptOver, soon, if the attempt may not go on."""
        end = time.monotonic() + seconds
        self.check()
        while (left_s := end - time.monotonic()) > 0:
            if self._poll.poll(math.ceil(1000 * max(0.0, min(left_s, self.remaining_s())))):
                self.clear_wake()
            self.check()

    def remaining_s(self) -> float:
        """Return the seconds until the time limit; infinity without one."""
        return self._end - time.monotonic()

    def close(self) -> None:
        """Give the descriptors back; a late `stop` or `wake` then does nothing."""
        with self._lock:
            self._closed = True
            os.close(self.fd)
            os.close(self._write_fd)
