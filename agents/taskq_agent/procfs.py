"""Other processes in /proc of Linux. Without /proc, nothing is found."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Iterator, List, Optional, Set

_MAX_SWEEPS = 20  # a bound: a fork bomb may be faster than this loop
_QUIET_SWEEPS = 2  # one sweep may miss processes in the middle of fork or exec
_PAUSE_S = 0.01
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MAX_FAMILY = 4_096


def started_at(pid: int) -> Optional[int]:
    """Return when a process started, in clock ticks since boot; None if there is none.

    Together with the process id it identifies a process uniquely.
    """
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def family(pid: int) -> List[int]:
    """Return a process and its descendants, without those whose parents have ended."""
    found = [pid]
    for one in found:
        with suppress(OSError):
            for thread in Path(f"/proc/{one}/task").iterdir():
                found += map(int, (thread / "children").read_bytes().split())
        if len(found) > _MAX_FAMILY:
            break
    return found


def cpu_s(pids: List[int]) -> float:
    """Return the CPU time of processes and of their reaped children."""
    return sum(sum(map(int, _stat(pid)[11:15])) for pid in pids) * _TICK_S


def resident_bytes(pids: List[int]) -> int:
    """Return the memory that processes occupy; shared memory counts once, if Linux reports it."""
    resident = 0
    for pid in pids:
        size = _kilobytes(f"/proc/{pid}/smaps_rollup", b"Pss:") if len(pids) > 1 else None
        if size is None:
            with suppress(OSError):
                pages = Path(f"/proc/{pid}/statm").read_bytes().split()[1]
                size = int(pages) * _PAGE_BYTES
        resident += size or 0
    return resident


def forget_peak(pid: int) -> None:
    """Let `peak_bytes` of a process begin again."""
    with suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_bytes(b"5")


def peak_bytes(pid: int) -> int:
    """Return the largest size of a process in memory so far; 0 if Linux does not report it."""
    return _kilobytes(f"/proc/{pid}/status", b"VmHWM:") or 0


def _kilobytes(file: str, name: bytes) -> Optional[int]:
    with suppress(OSError):
        for line in Path(file).read_bytes().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return None


def _stat(pid: int) -> List[bytes]:
    """Return the fields of a process after its name; empty if there is no such process."""
    try:
        # the name, in parentheses, may itself hold spaces and parentheses
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return []


def kill_marked(mark: str) -> None:
    """Kill all processes with an environment variable that begins so: `NAME=start of value`.

    The environment at a process's start counts. Children inherit it, so this finds descendants that
    have left their group and session. Processes in the session of a found one are killed too,
    whatever their environment. The calling process is spared.
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
