"""CPU time and memory of processes on this machine, from the kernel."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from taskq.db.connections import Database

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class _Stat(NamedTuple):
    pid: int
    parent: int
    cpu_s: float
    memory: int


def cpu_s(*roots: int) -> float:
    """Return the seconds that processes have worked, with all below them and all that have ended.

    In steps of a tick, a hundredth of a second as a rule.
    """
    return sum(process.cpu_s for process in _family(roots))


def memory(*roots: int) -> int:
    """Return the bytes that processes and all below them have in memory.

    What they share is counted for each.
    """
    return sum(process.memory for process in _family(roots))


def server_process(database: Database) -> int | None:
    """Return the server's first process, which all others come from; None if it is elsewhere."""
    (backend,) = database.rows("backend")
    stat = _stat(backend["pid"]) if backend["here"] else None
    return None if stat is None else stat.parent


def _family(roots: Iterable[int]) -> Iterator[_Stat]:
    """Yield processes and all below them, each once."""
    stats = {process.pid: process for process in map(_stat, _pids()) if process is not None}
    below: dict[int, list[int]] = {}
    for process in stats.values():
        below.setdefault(process.parent, []).append(process.pid)
    left, seen = list(roots), set[int]()
    while left:
        pid = left.pop()
        if pid in stats and pid not in seen:
            seen.add(pid)
            yield stats[pid]
            left += below.get(pid, ())


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal())


def _stat(pid: int) -> _Stat | None:
    """Return the values of /proc/PID/stat (see proc(5)); None if the process has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name may hold anything, so count from its end: state, parent, ...
    fields = text.rpartition(")")[2].split()
    # Own time, and that of children that have ended and been waited for.
    ticks = sum(int(field) for field in fields[11:15])
    return _Stat(pid, int(fields[1]), ticks / _TICKS, int(fields[21]) * _PAGE)
