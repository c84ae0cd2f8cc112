"""CPU time and memory are those of a process and of all that it has started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks import processes
from taskq.db.connections import Database
from tests.helpers.waiting import wait_until

BURN_S = 0.2
BURN = f"import time\nwhile time.process_time() < {BURN_S}: pass"
SHELL = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN!r}])\ninput()"
HOLD = "held = bytearray(64_000_000); print(flush=True); input()"
#: With nothing else below it: below a process of tests, servers grow and shrink.
HOLDING = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {HOLD!r}])"


def test_time_of_a_child_that_has_ended_is_counted() -> None:
    """The processes of connections come and go; what they have worked remains."""
    before = processes.cpu_s(os.getpid())
    with subprocess.Popen([sys.executable, "-c", SHELL], stdin=subprocess.PIPE) as shell:
        wait_until(lambda: processes.cpu_s(shell.pid) >= BURN_S)
        assert processes.cpu_s(os.getpid()) >= before + BURN_S
        shell.communicate(b"\n")


def test_processes_that_contain_each_other_are_counted_once() -> None:
    """A gateway that is named next to its parent adds nothing."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", HOLDING], **pipes) as outer:
        assert outer.stdout is not None
        outer.stdout.readline()  # the inner one has grown
        (inner,) = children(outer.pid)
        assert processes.memory(outer.pid) > processes.memory(inner) > 64_000_000
        assert processes.memory(outer.pid, inner) == processes.memory(outer.pid)
        outer.communicate(b"\n")


def children(pid: int) -> list[int]:
    """Return the processes that one has started."""
    return [int(number) for number in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_server_is_the_parent_of_its_connections(database: Database) -> None:
    """So it reports the time of all its processes, not that of one connection."""
    root = processes.server_process(database)
    assert root is not None
    (backend,) = database.rows("backend")
    assert processes.cpu_s(root) >= processes.cpu_s(backend["pid"])
