"""Limits of an attempt: a stop from outside, time, memory and processors.

Everything that the tasks of a slot start runs on its processors, and nowhere else.
"""

from __future__ import annotations

import math
import os
import select
import threading
import time
from collections import deque
from contextlib import contextmanager, suppress
from typing import Deque, Iterator, Optional

from taskq_agent.handlers.base import AttemptOver, Ended, failed
from taskq_agent.handlers.meter import Meter
from taskq_agent.protocol import OUT_OF_MEMORY, RELEASED
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


_LOOK_S = 0.2


class MemoryRoom:
    """Grants parts of the memory in the order of the requests. Thread-safe.

    While all want an equal share, nobody waits.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._free = size
        self._queue: Deque[object] = deque()
        self._lock = threading.Lock()

    @contextmanager
    def taken(self, wanted: int, watch: ChildWatch) -> Iterator[None]:
        """Wait until so many bytes (no more than `size`) are free, and keep them.

        Raises AttemptOver if the attempt must end meanwhile.
        """
        turn = object()
        self._queue.append(turn)
        try:
            while not self._take(turn, wanted):
                watch.pause(_LOOK_S)
        finally:
            self._queue.remove(turn)
        try:
            yield
        finally:
            with self._lock:
                self._free += wanted

    def _take(self, turn: object, wanted: int) -> bool:
        with self._lock:
            if self._queue[0] is not turn or wanted > self._free:
                return False
            self._free -= wanted
            return True


_FOREVER = float("inf")


class ChildWatch:
    """Stop flag and limits of one slot. `stop` and `wake` are thread-safe, the rest is not.

    fd: becomes readable when something has happened that a waiting slot must check. meter: of what
    the attempt's processes use.
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
        self._exceeded = ""
        self._limit_s: Optional[float] = None
        self._end = _FOREVER
        self.meter = Meter(self._exceed)

    def begin(self) -> None:
        """Begin an attempt, without a time limit yet."""
        self._stopped = False  # a stop between two attempts was meant for the first
        self._exceeded = ""
        self.limit(None)

    def limit(self, limit_s: Optional[float]) -> None:
        """Set the time limit of the attempt, from now on; None means no limit."""
        self._limit_s = limit_s
        self._end = _FOREVER if limit_s is None else time.monotonic() + limit_s

    def stop(self) -> None:
        """Stop the running attempt."""
        self._stopped = True
        self.wake()

    def wake(self) -> None:
        """Wake the thread that polls `fd`."""
        with self._lock, suppress(BlockingIOError):  # full of earlier calls: readable anyway
            if not self._closed:
                os.write(self._write_fd, b"!")

    def clear_wake(self) -> None:
        """Make `fd` unreadable again."""
        with suppress(BlockingIOError):
            os.read(self.fd, 4096)

    def check(self) -> None:
        """Raise AttemptOver if the running attempt must end."""
        if self._stopped:
            raise AttemptOver(Ended(RELEASED, error_class="stopped", error="stopped by its agent"))
        if self._exceeded:
            raise AttemptOver(failed(OUT_OF_MEMORY, self._exceeded, retry=True))
        if time.monotonic() >= self._end:
            raise AttemptOver(
                failed("time-limit", f"exceeded its time limit of {self._limit_s:g} s", retry=True)
            )

    def pause(self, seconds: float) -> None:
        """Sleep; raises AttemptOver, soon, if the attempt must end."""
        end = time.monotonic() + seconds
        self.check()
        while (left_s := end - time.monotonic()) > 0:
            if self._poll.poll(math.ceil(1000 * max(0.0, min(left_s, self.remaining_s())))):
                self.clear_wake()
            self.check()

    def remaining_s(self) -> float:
        """Return the seconds until the time limit; infinity without one."""
        return self._end - time.monotonic()

    def _exceed(self, text: str) -> None:
        self._exceeded = text
        self.wake()

    def close(self) -> None:
        """Close the descriptors; a later `stop` or `wake` then does nothing."""
        with self._lock:
            self._closed = True
            os.close(self.fd)
            os.close(self._write_fd)
