"""Minimal event loop: waits for sockets and timers."""

from __future__ import annotations

import heapq
import itertools
import select
import time
from collections.abc import Callable
from typing import Final, TypeAlias

Then: TypeAlias = Callable[[], object]

LONGEST_S: Final = 0.05
"""Between two looks at whether to go on."""
COARSE_S: Final = 0.005
"""epoll waits for whole milliseconds, rounded up; shorter pauses are kept to the microsecond."""


class Loop:
    """Calls registered functions when a file is ready, or at a time."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._files: dict[int, Then] = {}
        self._times: list[tuple[float, int, Then]] = []
        self._numbers = itertools.count()
        self.now = time.perf_counter()
        """As of the last time that anything was waited for."""

    def watch(self, file: int, then: Then, *, reading: bool = True, writing: bool = False) -> None:
        """Call `then` whenever the file can be read, or written; replaces an earlier choice."""
        events = select.EPOLLIN * reading | select.EPOLLOUT * writing
        if file in self._files:
            self._epoll.modify(file, events)
        else:
            self._epoll.register(file, events)
        self._files[file] = then

    def forget(self, file: int) -> None:
        """Watch a file no longer. To be called before it is closed."""
        del self._files[file]
        self._epoll.unregister(file)

    def at(self, when: float, then: Then) -> None:
        """Call `then` once, at a time of `time.perf_counter`."""
        heapq.heappush(self._times, (when, next(self._numbers), then))

    def run(self, go_on: Callable[[], bool]) -> None:
        """Wait and call, until `go_on` returns False."""
        files, times = self._files, self._times
        while go_on():
            pause_s = min(LONGEST_S, times[0][0] - self.now) if times else LONGEST_S
            if 0 < pause_s < COARSE_S:
                select.select([self._epoll], (), (), pause_s)
                pause_s = 0.0
            ready = self._epoll.poll(max(0.0, pause_s))
            self.now = time.perf_counter()
            for file, _ in ready:
                then = files.get(file)
                if then is not None:  # forgotten by what was called just before
                    then()
            while times and times[0][0] <= self.now:
                heapq.heappop(times)[2]()
