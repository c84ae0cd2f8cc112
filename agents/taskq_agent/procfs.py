"""Other processes in /proc of Linux. Without /proc, nothing is found."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Iterator, Optional, Set

_MAX_SWEEPS = 20  # a bound: a fork bomb may be faster than this loop
_QUIET_SWEEPS = 2  # one sweep may miss processes in the middle of fork or exec
_PAUSE_S = 0.01


def started_at(pid: int) -> Optional[int]:
    """Return when a process was started, in clock ticks since boot; None if there is none.

    Together with the process id it identifies a process uniquely.
    """
    try:
        # the name, in parentheses, may itself hold spaces and parentheses
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(fields[19])


def kill_marked(mark: str) -> None:
    """Kill all processes with an environment variable that begins so: `NAME=start of value`.

    It is the environment at their start, which children inherit, so this finds descendants that
    have left their group and session. Processes that share a session with one that is found are
    killed too, whatever their environment. The calling process is spared.
    """
    wanted = b"\0" + os.fsencode(mark)
    killed: Set[int] = set()
    sessions: Set[int] = set()
    quiet = 0
    for _ in range(_MAX_SWEEPS):
        found = set()
        for pid in _pids():
            with suppress(ProcessLookupError, PermissionError):
                session = os.getsid(pid)
                if pid not in killed and (session in sessions or wanted in _environment(pid)):
                    sessions.add(session)
                    found.add(pid)
                    os.kill(pid, signal.SIGKILL)
        killed |= found
        quiet = 0 if found else quiet + 1
        if quiet == _QUIET_SWEEPS:
            return
        time.sleep(_PAUSE_S)


def _environment(pid: int) -> bytes:
    try:
        return b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def _pids() -> Iterator[int]:
    with suppress(OSError), os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                yield int(entry.name)
