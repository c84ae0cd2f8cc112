"""Cleanup after an agent that dies, even by SIGKILL: it leaves nothing on the node.

A small process holds the read end of a pipe whose only write end is the agent's. The agent writes
one JSON line per change: `["+group", PGID]`, `["-group", PGID]`, `["+folder", PATH]`, `["-folder",
PATH]`, and the same for containers, `RUNTIME NUL NAME`. End of file means that the agent is gone.
The process then kills what is left of the groups, then everything that carries the agent's mark in
its environment (payloads that were just starting, or have moved to their own session). It removes
containers and folders and exits. It blocks all signals that end a job or warn it, and has its own
session, so that neither Ctrl-C nor a batch system that signals all processes of the job stops it
first.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Dict, Optional, Set, Tuple, Union

from taskq_agent import procfs, scratch, strays
from taskq_agent.signals import ENDING_SIGNALS

_ROOT = str(Path(__file__).absolute().parents[1])
_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from taskq_agent.reaper import main; main()"
_EXIT_S = 10.0
_REMOVAL_S = 30.0

Entry = Tuple[str, Union[int, str]]

_shared: Optional[Reaper] = None
_shared_lock = threading.Lock()


class Reaper:
    """The agent's end of the pipe. Thread-safe."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._name = strays.new_name()
        self._marks = itertools.count(1)
        self._entries: Set[Entry] = set()
        self._lock = threading.Lock()
        self._start()

    def new_mark(self) -> Tuple[str, str]:
        """Return name and value of an environment variable that marks a process group."""
        return strays.MARK, f"{self._name}:{next(self._marks)}:"

    def add(self, kind: str, thing: Union[int, str]) -> None:
        """Register a `group`, a `folder` or a `container` for cleanup."""
        with self._lock:
            self._entries.add((kind, thing))
            self._write("+", kind, thing)

    def drop(self, kind: str, thing: Union[int, str]) -> None:
        """Remove a registration.

        A group must be removed before its leader is reaped, while its id cannot belong to another
        group.
        """
        with self._lock:
            self._entries.discard((kind, thing))
            self._write("-", kind, thing)

    def children(self) -> Set[int]:
        """Return the children that have been registered, and its own process."""
        with self._lock:
            groups = {thing for kind, thing in self._entries if kind == "group"}
        return {self._process.pid, *map(int, groups)}

    def close(self) -> None:
        """Let the process clean up what is still registered, and wait until it has."""
        strays.end_orphans(self.children())
        with self._lock:
            self._pipe.close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_EXIT_S)

    def _write(self, sign: str, kind: str, thing: Union[int, str]) -> None:
        try:
            self._pipe.write(_line(sign, kind, thing))
        except BrokenPipeError:  # somebody has killed the process
            self._pipe.close()
            self._process.wait()
            self._start()

    def _start(self) -> None:
        # the mask is inherited: the child blocks the signals from its first instruction on
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BOOT, _ROOT, f"{strays.MARK}={self._name}:"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
                bufsize=0,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        assert self._process.stdin is not None  # noqa: S101 - it was asked for, for mypy
        self._pipe = self._process.stdin
        for kind, thing in self._entries:
            self._pipe.write(_line("+", kind, thing))


def shared() -> Reaper:
    """Return the reaper of this process, started at the first call.

    There is only one, because it waits for the end of the process.
    """
    global _shared  # noqa: PLW0603 - see above
    with _shared_lock:
        if _shared is None or _shared.owner != os.getpid():
            _shared = Reaper()
            atexit.register(_shared.close)
        return _shared


def main() -> None:
    """Read the lines of the agent from standard input to the end, then clean up."""
    groups: Dict[int, Optional[int]] = {}
    others: Dict[str, Set[str]] = {"folder": set(), "container": set()}
    for line in sys.stdin.buffer:
        if not line.endswith(b"\n"):
            break  # the agent died while it wrote
        action, thing = json.loads(line)
        if action == "+group":
            groups[thing] = procfs.started_at(thing)
        elif action == "-group":
            groups.pop(thing, None)
        elif action.startswith("+"):
            others[action[1:]].add(thing)
        else:
            others[action[1:]].discard(thing)
    if groups or any(others.values()):  # else the agent has cleaned up itself
        _clear_away(groups, others["folder"], others["container"], sys.argv[2])


def _clear_away(
    groups: Dict[int, Optional[int]], folders: Set[str], containers: Set[str], mark: str
) -> None:
    for group, then in groups.items():
        if procfs.started_at(group) in (then, None):  # else the id belongs to another group
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
    strays.kill_marked(mark)
    for container in containers:
        remove_container(container)
    for folder in folders:
        strays.kill_inside(folder)  # what has emptied its environment
        scratch.remove(folder)


def remove_container(container: str) -> None:
    """Kill and remove a container, `RUNTIME NUL NAME`, if it exists."""
    runtime, _, name = container.partition("\0")
    root = ["--allow-root"] * (not os.geteuid())
    remove = [*root, "rm", "-f"] if Path(runtime).name == "udocker" else ["rm", "--force"]
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            [runtime, *remove, name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_REMOVAL_S,
            check=False,
        )


def _line(sign: str, kind: str, thing: Union[int, str]) -> bytes:
    return json.dumps([sign + kind, thing]).encode() + b"\n"
