"""Leaves nothing behind when the agent dies, even by SIGKILL.

A small process holds the read end of a pipe whose write end only the agent has. The agent
writes one JSON line per change: `["+group", PGID]`, `["-group", PGID]`, `["+folder", PATH]`,
`["-folder", PATH]`. At end of file the agent is gone: the process kills what is left of the
groups, then everything that carries the agent's mark in its environment (payloads that were
just being started, or that have moved to a session of their own), removes the folders and
exits. It blocks SIGTERM and lives in a session of its own, so that neither Ctrl-C nor a batch
system that ends a job politely takes it away first.
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

from taskq_agent import procfs, scratch

_MARK = "TASKQ_AGENT"
_ROOT = str(Path(__file__).absolute().parents[1])
_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from taskq_agent.reaper import main; main()"
_BLOCKED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_EXIT_S = 10.0

Entry = Tuple[str, Union[int, str]]


class Reaper:
    """The agent's end of the pipe. Safe to call from several threads."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._name = os.urandom(16).hex()
        self._marks = itertools.count(1)
        self._entries: Set[Entry] = set()
        self._lock = threading.Lock()
        self._start()

    def new_mark(self) -> Tuple[str, str]:
        """Return the name and value of a variable to put into the environment of a group."""
        return _MARK, f"{self._name}:{next(self._marks)}:"

    def add(self, kind: str, thing: Union[int, str]) -> None:
        """Entrust a `group` or a `folder`."""
        with self._lock:
            self._entries.add((kind, thing))
            self._write("+", kind, thing)

    def drop(self, kind: str, thing: Union[int, str]) -> None:
        """Take it back.

        A group must be dropped before its leader is reaped, while its number cannot have been
        given to another.
        """
        with self._lock:
            self._entries.discard((kind, thing))
            self._write("-", kind, thing)

    def close(self) -> None:
        """Let the process clear away what is still entrusted, and wait until it has."""
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
        # the mask is inherited: signals are blocked from the first instruction on
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
        try:
            self._process = self._spawn()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        assert self._process.stdin is not None  # noqa: S101 - it was asked for, for mypy
        self._pipe = self._process.stdin
        for kind, thing in self._entries:
            self._pipe.write(_line("+", kind, thing))

    def _spawn(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _BOOT, _ROOT, f"{_MARK}={self._name}:"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
            bufsize=0,
        )


_shared: Optional[Reaper] = None
_shared_lock = threading.Lock()


def shared() -> Reaper:
    """Return the reaper of this process, started at the first call.

    There is one, because the event that it waits for is the end of the process.
    """
    global _shared  # noqa: PLW0603 - see above
    with _shared_lock:
        if _shared is None or _shared.owner != os.getpid():
            _shared = Reaper()
            atexit.register(_shared.close)
        return _shared


def main() -> None:
    """Follow the agent's lines on standard input to their end, then clear away."""
    groups: Dict[int, Optional[int]] = {}
    folders: Set[str] = set()
    for line in sys.stdin.buffer:
        if not line.endswith(b"\n"):
            break  # the agent died while it wrote
        action, thing = json.loads(line)
        if action == "+group":
            groups[thing] = procfs.started_at(thing)
        elif action == "-group":
            groups.pop(thing, None)
        elif action == "+folder":
            folders.add(thing)
        elif action == "-folder":
            folders.discard(thing)
    if groups or folders:  # else the agent has ended in good order
        _clear_away(groups, folders, sys.argv[2])


def _clear_away(groups: Dict[int, Optional[int]], folders: Set[str], mark: str) -> None:
    for group, then in groups.items():
        if procfs.started_at(group) in (then, None):  # else the number has a new owner
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
    procfs.kill_marked(mark)
    for folder in folders:
        scratch.remove(folder)


def _line(sign: str, kind: str, thing: Union[int, str]) -> bytes:
    return json.dumps([sign + kind, thing]).encode() + b"\n"
