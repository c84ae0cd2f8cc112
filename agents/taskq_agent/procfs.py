"""Other processes in /proc of Linux. Without /proc, nothing is found."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Iterator, List, Optional

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MAX_FAMILY = 4_096


def started_at(pid: int) -> Optional[int]:
    """Return when a process started, in clock ticks since boot; None if there is none.

    Together with the process id it identifies a process uniquely.
    """
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def lives(pid: int, started: int) -> bool:
    """Return whether the process that started then is there, and has not ended."""
    fields = _stat(pid)
    return bool(fields) and int(fields[19]) == started and fields[0] != b"Z"


def children(pid: int) -> List[int]:
    """Return the children of the first thread of a process; an adopted orphan is among them."""
    with suppress(OSError):
        return [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_bytes().split())]
    return []


def family(pid: int) -> List[int]:
    """Return a process and its descendants, without those whose parents have ended."""
    found = [pid]
    for process in found:
        with suppress(OSError):
            for thread in Path(f"/proc/{process}/task").iterdir():
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


def environment_of(pid: int) -> bytes:
    """Return the variables of a process at its start, each after a NUL; empty if it has ended."""
    try:
        return b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def others() -> Iterator[int]:
    """Yield all processes but this one."""
    with suppress(OSError), os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                yield int(entry.name)
