"""CPU time and memory are those of a process and of all that it has started."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks import processes
from taskq.db.connections import Database
from tests.helpers.waiting import wait_until

BURN_S = 0.2
BURN = f"import time\nwhile time.process_time() < {BURN_S}: pass"
SHELL = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN!r}])\ninput()"
HOLD = "held = bytearray(64_000_000); input()"


def test_time_of_a_child_that_has_ended_is_counted() -> None:
    """The processes of connections come and go; what they have worked remains."""
    before = processes.cpu_s(os.getpid())
    with subprocess.Popen([sys.executable, "-c", SHELL], stdin=subprocess.PIPE) as shell:
        wait_until(lambda: processes.cpu_s(shell.pid) >= BURN_S)
        assert processes.cpu_s(os.getpid()) >= before + BURN_S
        shell.communicate(b"\n")


def test_processes_that_contain_each_other_are_counted_once() -> None:
    """A gateway that is named beside its parent adds nothing."""
    with subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE) as child:
        wait_until(lambda: processes.memory(child.pid) > 64_000_000)
        assert processes.memory(os.getpid()) > processes.memory(child.pid)
        both = processes.memory(os.getpid(), child.pid)
        assert both < processes.memory(os.getpid()) + 32_000_000
        child.communicate(b"\n")


def test_the_server_is_the_parent_of_its_connections(database: Database) -> None:
    """So the time of all its processes is told, not that of one connection."""
    root = processes.server_process(database)
    assert root is not None
    (backend,) = database.rows("backend")
    assert processes.cpu_s(root) >= processes.cpu_s(backend["pid"])
