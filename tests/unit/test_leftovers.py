from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.leftovers import VARIABLE
from tests.helpers.paths import ROOT
from tests.helpers.waiting import wait_until
from tests.helpers.worker_node import WorkerNode

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


def test_agents_of_worker_nodes_die_with_a_crashed_test_run(tmp_path: Path) -> None:
    """Though a worker node withholds the other variables of taskq from its agents."""
    assert WorkerNode(tmp_path).environment[VARIABLE] == os.environ[VARIABLE]


# A plugin that stops the first test when the server runs.
HOLD = """
import os, pathlib, signal, pytest

@pytest.fixture(autouse=True)
def hold(server_home, queue):
    held = pathlib.Path(os.environ["HELD"])
    held.with_suffix(".part").write_text(str(server_home))
    held.with_suffix(".part").rename(held)
    signal.pause()
"""


@pytest.mark.thorough
@pytest.mark.parametrize(("workers", "number"), [(0, signal.SIGTERM), (1, signal.SIGKILL)])
def test_database_server_of_a_killed_test_run_ends_with_it(
    tmp_path: Path, workers: int, number: signal.Signals
) -> None:
    """And its files go."""
    (tmp_path / "hold.py").write_text(HOLD)
    held = tmp_path / "held"
    name = "tests/integration/compute/test_executor.py"
    argv = ["-m", "pytest", "-q", "-n", str(workers), "-p", "hold", "-k", "begun_are", name]
    tests = subprocess.Popen(
        [sys.executable, *argv],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "HELD": str(held)},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until(held.exists, timeout_s=180)
        home = Path(held.read_text())
        server = int(next(home.rglob("postmaster.pid")).read_text().split()[0])
        assert not _is_dead(server)
        tests.send_signal(number)
        wait_until(lambda: _is_dead(server) and not home.exists())
    finally:
        tests.kill()
        tests.wait()


def _is_dead(pid: int) -> bool:
    """Return whether a process is gone, or a zombie that nobody has collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except OSError:
        return True


@pytest.mark.thorough
def test_cases_of_the_short_run_are_the_same_in_any_order() -> None:
    """The first of each test, though the order is another each time."""
    argv = [sys.executable, "-m", "pytest", "-q", "-n0", "--collect-only", "-m", "not thorough"]
    argv += ["tests/integration/pilots/test_loop.py", "tests/integration/pilots/test_terms.py"]
    runs = [
        subprocess.run(
            [*argv, f"--randomly-seed={seed}"], cwd=ROOT, stdout=subprocess.PIPE, check=True
        )
        for seed in (1, 2)
    ]
    row, other = ([line for line in run.stdout.split() if b"::" in line] for run in runs)
    assert row != other
    assert sorted(row) == sorted(other)
    assert not any(b"[gateway" in line for line in row)
