"""Meters of what attempts use: CPU time and memory of a child with its descendants.

When a child ends, the kernel reports its CPU time, with that of the descendants that were waited
for, and the largest size of a single process. A thread samples the sum over several processes, and
a child that stays for further tasks, four times a second, or less often, so that this takes 2 % of
a processor at most. A child begins with the size of the agent that forked it, so a smaller peak of
a short attempt is unknown.

Sampling enforces the limit of memory, not a limit of the kernel (rlimit): a program that is refused
memory ends in its own way, which does not show the cause.
"""

from __future__ import annotations

import resource
import threading
import time
from typing import Callable, Dict, Optional, Set

from taskq_agent import procfs
from taskq_agent.text import in_bytes

_LOOK_S = 0.25
_MAX_SHARE = 0.02
_KIB = 1024


class Meter:
    """The meter of one slot. `look` may be called from any thread.

    elsewhere: whether other processes, which cannot be measured here, do the child's work.
    exceeded: called with a text, once in an attempt, if it occupies more memory than it may; must
    not block.
    """

    def __init__(self, exceeded: Callable[[str], None]) -> None:
        self.elsewhere = False
        self._exceeded = exceeded
        self._lock = threading.Lock()
        self._pid: Optional[int] = None
        self._active = False
        self._limit: Optional[int] = None
        self._before_s = self._seen_s = self._ended_s = 0.0
        self._peak = 0

    @property
    def limit(self) -> Optional[int]:
        """How many bytes the attempt may occupy; None means any number."""
        return self._limit

    def begin(self, limit: Optional[int]) -> None:
        """Begin an attempt that may occupy so many bytes; None means any number."""
        with self._lock:
            self._active, self._limit = True, limit
            self._before_s = self._seen_s = self._ended_s = 0.0
            self._peak = 0
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
        """End the attempt; return `cpu_s` and, if known, `peak_bytes`."""
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
            return {**used, "peak_bytes": self._peak} if self._peak else used

    def look(self) -> None:
        """Sample what the child and its descendants use now."""
        with self._lock:
            if self._pid is None or self.elsewhere or not self._active:
                return
            pids = procfs.family(self._pid)
            self._seen_s = max(self._seen_s, procfs.cpu_s(pids))
            now = procfs.resident_bytes(pids)
            self._peak = max(self._peak, now)
            if self._limit is not None and now > self._limit:
                limit, self._limit = in_bytes(self._limit), None
                self._exceeded(f"occupied {in_bytes(now)} of memory; its limit is {limit}")


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
        while True:
            self._busy.wait()
            time.sleep(pause_s)
            with self._lock:
                meters = list(self._meters)
            begun = time.monotonic()
            for meter in meters:
                meter.look()
            pause_s = max(_LOOK_S, (time.monotonic() - begun) / _MAX_SHARE)


_lookout = _Lookout()
