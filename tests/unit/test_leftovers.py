from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT
from tests.helpers.waiting import wait_until

PROGRAM = """
import os, subprocess, sys
from tests.helpers.leftovers import Leftovers
guard = Leftovers()
child = subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
if sys.stdin.readline():
    guard.end()
"""


@pytest.mark.parametrize("crashes", [True, False])
def test_processes_of_a_crashed_test_run_die_with_it(*, crashes: bool) -> None:
    """Also those in a session of their own. A run that ends well kills nothing by this."""
    tests = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )
    assert tests.stdout is not None
    child = int(tests.stdout.readline())
    if crashes:
        tests.kill()
        tests.communicate()
        wait_until(lambda: _is_dead(child))
        return
    tests.communicate("well\n")
    assert tests.returncode == 0
    assert not _is_dead(child)
    os.kill(child, signal.SIGKILL)


def _is_dead(pid: int) -> bool:
    """Return whether a process is gone, or a zombie that nobody has collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except OSError:
        return True
