"""Limits of an attempt (a stop from outside, time, memory, processors), and meters of what it uses.

Everything that the tasks of a slot start runs on its processors, and nowhere else.

When a child ends, the kernel reports its CPU time, with that of the descendants that were waited
for, and the largest size of a single process. A thread samples the sum over several processes, and
children that stay for further tasks: four times a second, or less often, so that sampling takes at
most 2 % of a processor. A child begins with the size of the agent that forked it, so a smaller peak
of a short attempt is unknown.

Sampling enforces the limit of memory, not a limit of the kernel (rlimit): a program that is refused
memory ends in its own way, which does not show the cause.
"""

from __future__ import annotations

import logging
import math
import os
import resource
import select
import threading
import time
from collections import deque
from contextlib import contextmanager, suppress
from typing import Callable, Deque, Dict, Iterator, Optional, Set, Type

from taskq_agent import procfs
from taskq_agent.handlers import device_memory
from taskq_agent.handlers.base import AttemptOver, Ended, failed
from taskq_agent.protocol import OUT_OF_MEMORY, RELEASED, TIME_LIMIT
from taskq_agent.resources import Resources
from taskq_agent.units import in_bytes

log = logging.getLogger(__name__)

_LOOK_S = 0.25
_MAX_SHARE = 0.02
_KIB = 1024


class Meter:
    """The meter of one slot. `look` may be called from any thread.

    elsewhere: whether other processes, which cannot be measured here, do the child's work.
    has_devices: whether it has devices whose memory may be measured. limit: how many bytes the
    attempt may occupy; None means any number.
    exceeded: called with a text, once in an attempt, if it occupies more memory than it may; must
    not block.
    """

    def __init__(self, exceeded: Callable[[str], None]) -> None:
        self.elsewhere = self.has_devices = False
        self.limit: Optional[int] = None
        self._exceeded = exceeded
        self._lock = threading.Lock()
        self._pid: Optional[int] = None
        self._active = False
        self._before_s = self._seen_s = self._ended_s = 0.0
        self._peak = self._device_peak = 0
        self._begun_at = 0.0

    def begin(self, limit: Optional[int]) -> None:
        """Begin an attempt that may occupy so many bytes; None means any number."""
        with self._lock:
            self._active, self.limit = True, limit
            self._before_s = self._seen_s = self._ended_s = 0.0
            self._peak = self._device_peak = 0
            self._begun_at = time.monotonic()
            if self._pid is not None:
                procfs.forget_peak(self._pid)
                self._before_s = procfs.cpu_s([self._pid])
        _lookout.add(self)

    def started(self, pid: int) -> None:
        """Note that the attempt has started a child."""
        with self._lock:
            self._pid, self._before_s = pid, 0.0

    def ended(self, used: resource.struct_rusage) -> None:
        """Note what the child, which has ended, has used."""
        with self._lock:
            self._pid = None
            self._ended_s = used.ru_utime + used.ru_stime
            if used.ru_maxrss > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss:
                self._peak = max(self._peak, used.ru_maxrss * _KIB)

    def end(self) -> Dict[str, float]:
        """End the attempt; return `cpu_s` and, if known, `peak_bytes` and `gpu_peak_bytes`."""
        _lookout.remove(self)
        with self._lock:
            self._active = False
            if self.elsewhere:
                return {}
            last_s = self._ended_s
            if self._pid is not None:
                last_s = procfs.cpu_s([self._pid])
                self._peak = max(self._peak, procfs.peak_bytes(self._pid))
            cpu_s = max(last_s, self._seen_s) - self._before_s
            used = {"cpu_s": round(max(cpu_s, 0.0), 6)}
            return {**used, **self._peaks()}

    def used(self) -> Dict[str, float]:
        """Return `cpu_s` since the begin or the last call, and the peaks so far, if known."""
        with self._lock:
            if self.elsewhere:
                return {}
            seen_s = max(self._seen_s, self._ended_s)
            if self._pid is not None:
                seen_s = max(seen_s, procfs.cpu_s([self._pid]))
                self._peak = max(self._peak, procfs.peak_bytes(self._pid))
            cpu_s, self._before_s = seen_s - self._before_s, max(seen_s, self._before_s)
            used = {"cpu_s": max(cpu_s, 0.0)}
            return {**used, **self._peaks()}

    def look(self) -> None:
        """Sample what the child and its descendants use now."""
        with self._lock:
            if self._pid is None or self.elsewhere or not self._active:
                return
            pids = procfs.family(self._pid)
            self._seen_s = max(self._seen_s, procfs.cpu_s(pids))
            now = procfs.resident_bytes(pids)
            self._peak = max(self._peak, now)
            if self.has_devices:
                on_devices = device_memory.shared.of(pids, self._begun_at)
                self._device_peak = max(self._device_peak, on_devices)
            if self.limit is not None and now > self.limit:
                limit, self.limit = in_bytes(self.limit), None
                self._exceeded(f"occupied {in_bytes(now)} of memory; its limit is {limit}")

    def _peaks(self) -> Dict[str, float]:
        peaks = {"peak_bytes": self._peak, "gpu_peak_bytes": self._device_peak}
        return {name: peak for name, peak in peaks.items() if peak}


class _Lookout:
    """A thread that samples the meters of all attempts under way."""

    def __init__(self) -> None:
        self._meters: Set[Meter] = set()
        self._lock = threading.Lock()
        self._busy = threading.Event()
        self._thread: Optional[threading.Thread] = None

    def add(self, meter: Meter) -> None:
        with self._lock:
            self._meters.add(meter)
            self._busy.set()
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="taskq-meters", daemon=True)
                self._thread.start()

    def remove(self, meter: Meter) -> None:
        with self._lock:
            self._meters.discard(meter)
            if not self._meters:
                self._busy.clear()

    def _run(self) -> None:
        pause_s = _LOOK_S
        failing: Optional[Type[Exception]] = None
        while True:
            self._busy.wait()
            time.sleep(pause_s)
            with self._lock:
                meters = list(self._meters)
            begun = time.monotonic()
            for meter in meters:
                try:
                    meter.look()
                except Exception as error:  # noqa: BLE001, PERF203 - it is looked at again
                    level = logging.DEBUG if failing is type(error) else logging.WARNING
                    log.log(level, "what an attempt uses cannot be measured now: %r", error)
                    failing = type(error)
            pause_s = max(_LOOK_S, (time.monotonic() - begun) / _MAX_SHARE)


_lookout = _Lookout()


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


class ChildWatch:
    """Stop flag and limits of one slot. `stop` and `wake` are thread-safe, the rest is not.

    fd: becomes readable when something has happened that a waiting slot must check. meter:
    measures what the attempt's processes use.
    """

    def __init__(self) -> None:
        self.fd, self._write_fd = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write_fd, False)
        self._poll = select.poll()
        self._poll.register(self.fd, select.POLLIN)
        self._lock = threading.Lock()
        self._stopped = False
        #: Whether the slot should give back the calls that have not begun.
        self.give_back = False
        self._closed = False
        self._exceeded = ""
        self._limit_s: Optional[float] = None
        self._end = math.inf
        self.meter = Meter(self._exceed)

    def begin(self) -> None:
        """Begin an attempt, without a time limit yet."""
        self._stopped = False  # a stop between two attempts was meant for the first
        self._exceeded = ""
        self.give_back = False
        self.limit(None)

    def begin_start(self, memory: Optional[int]) -> None:
        """Begin a start of several tasks: what an earlier one has occupied does not count."""
        self.meter.begin(memory)
        self._exceeded = ""

    def limit(self, limit_s: Optional[float]) -> None:
        """Set the time limit of the attempt, from now on; None means no limit."""
        self._limit_s = limit_s
        self._end = math.inf if limit_s is None else time.monotonic() + limit_s

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
                failed(TIME_LIMIT, f"exceeded its time limit of {self._limit_s:g} s", retry=True)
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
