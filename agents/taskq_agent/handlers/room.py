"""The memory of an agent; each attempt takes a part of it while it runs."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager
from typing import Deque, Iterator

from taskq_agent.handlers.watch import ChildWatch

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
