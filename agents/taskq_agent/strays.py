"""Processes that payloads leave behind: how they are recognised and ended.

Each group of processes that an agent starts has a mark in its environment, `NAME:NUMBER:`, which
children inherit. The name tells which agent it is, so that a later one knows whether that agent
still lives. A process that has emptied its environment is recognised by its session, or by its
working folder.

An agent adopts orphans (a subreaper of Linux): what has left its group, and lost its parent, is a
child of the agent. So one short file of /proc shows whether an attempt has left anything.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Callable, Container, Iterable, Set

from taskq_agent import procfs

MARK = "TASKQ_AGENT"

_VARIABLE = f"\0{MARK}=".encode()
_PR_SET_CHILD_SUBREAPER = 36
_MAX_SWEEPS = 20  # a bound: a fork bomb may be faster than this loop
_QUIET_SWEEPS = 2  # one sweep may miss processes in the middle of fork or exec
_PAUSE_S = 0.01
_LONGEST_S = 5.0

_sweeping = threading.Lock()
_adopts = False
#: Children that this process had before it adopted any: they are its starter's, such as a server.
_before: Set[int] = set()


def new_name() -> str:
    """Return a name for this process as an agent."""
    pid = os.getpid()
    return f"{_namespace(pid)}.{pid}.{procfs.started_at(pid)}.{os.urandom(8).hex()}"


def adopt_orphans() -> None:
    """Make this process the parent of orphans below it, if the system can do that.

    `end_strays` takes all children that come later for orphans, so it must be an agent's process.
    """
    global _adopts  # noqa: PLW0603 - as the process is
    if not _adopts:
        _before.update(procfs.children(os.getpid()))
    with suppress(ImportError, OSError, AttributeError):
        import ctypes  # noqa: PLC0415 - slow to import, and some Pythons have none

        _adopts = not ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_strays(mark: str, folder: str, known: Container[int], *, alone: bool) -> None:
    """Kill what a group whose leader has ended has left outside of it.

    mark: of the group. folder: its working folder. known: children that are no orphans. alone:
    whether no other group is at work, so that all orphans are of this one.
    """
    is_marked = _is_marked(mark)
    if _adopts:
        _end_orphans(lambda pid: alone or is_marked(pid) or _is_inside(pid, folder), known)
    else:
        _kill(is_marked)


def end_orphans(known: Container[int]) -> None:
    """Kill all orphans that this process has adopted. known: children that are no orphans."""
    if _adopts:
        _end_orphans(lambda _: True, known)


def _end_orphans(is_wanted: Callable[[int], bool], known: Container[int]) -> None:
    pause_s, until = 0.0, time.monotonic() + _LONGEST_S
    with _sweeping:  # else another slot may collect a process before it is killed here
        quiet = 1
        while quiet and time.monotonic() < until:
            orphans = {
                pid
                for pid in procfs.children(os.getpid())
                if pid not in known and pid not in _before
            }
            ended = {pid for pid in orphans if _is_collected(pid)}
            if _killed(orphans - ended, is_wanted, set()) or ended:
                quiet = _QUIET_SWEEPS  # children of what ends just now may be missing in the list
                time.sleep(pause_s)
                pause_s = min(pause_s + _PAUSE_S / 10, _PAUSE_S)
            else:
                quiet -= 1


def kill_marked(mark: str) -> None:
    """Kill all processes with an environment variable that begins so: `NAME=start of value`.

    The environment at a process's start counts. Children inherit it, so this finds descendants that
    have left their group and session. Processes in the session of a found one are killed too,
    whatever their environment. The calling process is spared.
    """
    _kill(_is_marked(mark))


def kill_inside(folder: str) -> None:
    """Kill all processes of this user whose working folder is this one, or within it."""
    _kill(lambda pid: _is_inside(pid, folder))


def kill_orphaned() -> None:
    """Kill what agents on this machine that have ended have left, if it has their marks."""
    _kill(_is_of_the_dead, quiet=1)


def _kill(is_wanted: Callable[[int], bool], *, quiet: int = _QUIET_SWEEPS) -> None:
    killed: Set[int] = set()
    sessions: Set[int] = set()
    left = quiet
    for _ in range(_MAX_SWEEPS):
        found = _killed((pid for pid in procfs.others() if pid not in killed), is_wanted, sessions)
        killed |= found
        left = quiet if found else left - 1
        if not left:
            return
        time.sleep(_PAUSE_S)


def _killed(pids: Iterable[int], is_wanted: Callable[[int], bool], sessions: Set[int]) -> Set[int]:
    """Kill the wanted ones and those of their sessions, which are added; return them."""
    found = set()
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            session = os.getsid(pid)
            if session in sessions or is_wanted(pid):
                sessions.add(session)
                os.kill(pid, signal.SIGKILL)
                found.add(pid)  # unless it has another user by now: no further sweep helps
    return found


def _is_marked(mark: str) -> Callable[[int], bool]:
    wanted = b"\0" + os.fsencode(mark)
    return lambda pid: wanted in procfs.environment_of(pid)


def _is_inside(pid: int, folder: str) -> bool:
    with suppress(OSError):
        return f"{Path(f'/proc/{pid}/cwd').readlink()}/".startswith(f"{folder}/")
    return False


def _is_of_the_dead(pid: int) -> bool:
    """Return whether a process has the mark of an agent that has ended, in this PID namespace."""
    _, found, value = procfs.environment_of(pid).rpartition(_VARIABLE)
    with suppress(ValueError):
        namespace, agent, started, _ = value.partition(b":")[0].decode().split(".")
        here = _namespace(os.getpid())
        if found and here and namespace == here == _namespace(pid):
            return not procfs.lives(int(agent), int(started))
    return False


def _namespace(pid: int) -> str:
    """Return the number of the PID namespace of a process; empty if it is unknown."""
    with suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/pid").readlink()).strip("pid:[]")
    return ""


def _is_collected(pid: int) -> bool:
    """Return whether an orphan has ended; then it is no zombie any more."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
