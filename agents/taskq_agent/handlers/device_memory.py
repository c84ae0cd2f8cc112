"""Memory of devices that processes occupy, as `nvidia-smi` says; unknown where there is none.

It may take seconds, and hang for good where a driver is stuck. So a thread of its own asks, every
few seconds at most and only while somebody wants to know, and nobody waits for it. While one answer
is missing there is no other question.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from contextlib import suppress
from typing import Dict, Iterable

from taskq_agent import reaper

log = logging.getLogger(__name__)

_ASK = ("--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits")
_USE = re.compile(rb"^(\d+), (\d+)\s*$", re.MULTILINE)
_PAUSE_S = 5.0
_MAX_SHARE = 0.02
_PATIENCE_S = 60.0


class DeviceMemory:
    """What `nvidia-smi` said last. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._used: Dict[int, int] = {}
        self._asked_at = self._next_at = float("-inf")
        self._is_asking = False

    def of(self, pids: Iterable[int], since: float) -> int:
        """Return the bytes of processes, as asked after `since`; 0 if that is not known yet.

        since: by the monotonic clock.
        """
        with self._lock:
            now = time.monotonic()
            if not self._is_asking and now >= self._next_at:
                self._is_asking = True
                threading.Thread(target=self._ask, name="taskq-devices", daemon=True).start()
            if self._asked_at < since:
                return 0
            return sum(self._used.get(pid, 0) for pid in pids)

    def _ask(self) -> None:
        begun = time.monotonic()
        used: Dict[int, int] = {}
        program = shutil.which("nvidia-smi")
        if program is not None:
            with suppress(OSError):
                for pid, mebibytes in _USE.findall(_output(program)):
                    used[int(pid)] = used.get(int(pid), 0) + (int(mebibytes) << 20)
        now = time.monotonic()
        pause_s = max(_PAUSE_S, (now - begun) / _MAX_SHARE)
        with self._lock:
            self._used, self._asked_at, self._next_at = used, begun, now + pause_s
            self._is_asking = False


def _output(program: str) -> bytes:
    """Return what the program prints. It is no orphan, which an agent would kill."""
    process = subprocess.Popen(
        [program, *_ASK],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )
    reaper.shared().add("group", process.pid)
    try:
        return process.communicate(timeout=_PATIENCE_S)[0]
    except subprocess.TimeoutExpired:
        log.warning("%s does not answer: what attempts have of devices is not measured", program)
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0]
    finally:
        reaper.shared().drop("group", process.pid)


#: One for all slots.
shared = DeviceMemory()
