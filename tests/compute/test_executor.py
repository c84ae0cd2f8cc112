"""`taskq.Executor` is an executor: the standard library's own tests say so, where they apply.

Those that do not apply, all of them of the standard executors' own threads and processes:

- `test_hang_issue12364`, `test_interpreter_shutdown`, `test_submit_after_interpreter_shutdown`,
  `test_hang_gh83386`, `test_cancel_futures_wait_false` start programs that look for the standard
  executors by name.
- initializers, `max_tasks_per_child`, thread names, the processes of a pool: an executor of a queue
  has no processes of its own.
- `test_cancel_futures` wants twenty of fifty calls of 0.1 s cancelled that an agent has claimed.
"""

from __future__ import annotations

import importlib.util
import sys
import time
import unittest
from collections.abc import Iterator
from concurrent.futures import CancelledError, wait
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import taskq
from taskq import Client, Executor
from tests.helpers.pythons import pythons
from tests.payloads import called

WAIT_S = 120.0
#: Mixins of the standard tests, of which each test gets an executor of its own.
MIXINS = ("ExecutorTest", "WaitTests", "AsCompletedTests", "ExecutorShutdownTest")
NOT_FOR_US = frozenset(
    {
        "test_hang_issue12364",
        "test_interpreter_shutdown",
        "test_submit_after_interpreter_shutdown",
        "test_hang_gh83386",
        "test_cancel_futures_wait_false",
        # An agent claims short calls ahead, up to a second's worth: those have begun.
        "test_cancel_futures",
        # Five seconds of sleep.
        "test_map_timeout",
    }
)


def _files() -> Iterator[Path]:
    """Yield the standard tests of executors, of this Python's release or a near one, if any."""
    for python in dict.fromkeys([sys.executable, *pythons().values()]):
        for folder in Path(python).resolve().parents[1].glob("lib/python3.*/test"):
            yield from folder.glob("test_concurrent_futures.py")
            yield from folder.glob("test_concurrent_futures/executor.py")


@pytest.fixture(scope="module")
def standard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """Give the module of the standard tests, under a name by which agents can import it too."""
    folder = tmp_path_factory.mktemp("standard")
    sys.path.insert(0, str(folder))
    try:
        for number, file in enumerate(_files()):
            name = f"standard_executor_tests_{number}"
            (folder / f"{name}.py").write_bytes(file.read_bytes())
            spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            try:
                spec.loader.exec_module(module)
            except Exception:  # noqa: BLE001, S112  # those of another release may not load
                continue
            yield module
            return
        pytest.skip("no Python here has the tests of the standard library")
    finally:
        sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def executed(
    standard: ModuleType, shared_queue: Client, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    """Give a queue whose agents find the standard tests."""
    assert standard
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        with taskq.local_agents(shared_queue, slots=4):
            yield shared_queue


@pytest.mark.filterwarnings("ignore")  # the standard tests' own
@pytest.mark.parametrize("mixin", MIXINS)
def test_standard_tests_pass(standard: ModuleType, executed: Client, mixin: str) -> None:
    """All of a mixin that apply; it is not there in some releases."""
    if not hasattr(standard, mixin):
        pytest.skip(f"this release keeps {mixin} elsewhere")

    class Case(getattr(standard, mixin), unittest.TestCase):  # type: ignore[misc]
        worker_count = 4
        executor_type = staticmethod(partial(Executor, executed))

        def setUp(self) -> None:
            self.t1 = time.monotonic()
            self.executor = Executor(executed)

        def tearDown(self) -> None:
            self.executor.shutdown(wait=True, cancel_futures=True)

    names = [
        one for one in unittest.defaultTestLoader.getTestCaseNames(Case) if one not in NOT_FOR_US
    ]
    assert names
    result = unittest.TestResult()
    unittest.TestSuite(map(Case, names)).run(result)
    wrong = [f"{case.id()}: {text}" for case, text in result.failures + result.errors]
    assert not wrong, "\n".join(wrong)
    assert result.testsRun == len(names)


def test_an_executor_brings_its_agents_and_leaves_nothing(queue: Client, tmp_path: Path) -> None:
    """With `max_workers`; closures, objects, exceptions, and values in order."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path))
        with Executor(queue, max_workers=2) as executor:
            n = 3
            future = executor.submit(lambda x: x + n, 4)
            assert future.result(WAIT_S) == 7
            assert [*executor.map(called.square, range(5), [2] * 5)] == [0, 1, 4, 9, 16]
            with pytest.raises(called.BadLigand):
                executor.submit(called.refuse, 1).result(WAIT_S)
            waiting = [executor.submit(called.sleep, 0.01) for _ in range(20)]
            assert not wait(waiting, timeout=WAIT_S).not_done
            path = executor.path
    with pytest.raises(taskq.NotFound):
        queue.campaign(path)
    assert queue.agents() == []
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(called.square, 1)


def test_calls_that_have_not_begun_are_cancelled_at_shutdown(queue: Client) -> None:
    """Nobody serves this one, so all of them."""
    executor = Executor(queue)
    futures = [executor.submit(called.square, n) for n in range(3)]
    assert not futures[0].running()
    executor.shutdown(cancel_futures=True)
    assert all(future.cancelled() for future in futures)
    with pytest.raises(CancelledError):
        futures[0].result()


def test_what_is_too_large_for_an_executor_is_refused(queue: Client) -> None:
    """And says where it can go."""
    with Executor(queue) as executor, pytest.raises(taskq.InvalidTask, match="inputs="):
        executor.submit(called.same, Any, bytearray(60_000), object(), "x" * 60_000, _Heavy())


class _Heavy:
    def __init__(self) -> None:
        self.data = b"x" * 60_000
