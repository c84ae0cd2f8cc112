"""`taskq.Executor` is an executor: the standard library's own tests say so, where they apply.

Those that do not apply, all of them of the standard executors' own threads and processes:

- `test_interpreter_shutdown`, `test_submit_after_interpreter_shutdown`, `test_hang_gh83386`,
  `test_cancel_futures_wait_false` start programs that look for the standard executors by name.
- initializers, `max_tasks_per_child`, thread names, the processes of a pool: an executor of a queue
  has no processes of its own.
- `test_cancel_futures` wants twenty of fifty calls of 0.1 s cancelled: an agent claims short calls
  ahead, up to a second's worth, and those have begun.
- `test_free_reference_yielded_future`, `test_correct_timeout_exception_msg` wait for futures that
  no executor has made.
- `test_map_timeout` sleeps for six seconds; `test_run.py` has timeouts of ours.
"""

from __future__ import annotations

import threading
import time
import unittest
from collections.abc import Iterator
from concurrent.futures import CancelledError, wait
from functools import partial
from pathlib import Path

import pytest

import taskq
from taskq import Client, Executor
from taskq.model.errors import NotOverGateway, UsageError
from tests.integration.compute.standard_executor import (
    AsCompletedTests,
    ExecutorShutdownTest,
    ExecutorTest,
    WaitTests,
)
from tests.payloads import called

WAIT_S = 120.0
MIXINS = (ExecutorShutdownTest, WaitTests, ExecutorTest, AsCompletedTests)


@pytest.fixture(scope="module")
def executed(
    near_queue: Client, shared_queue: Client, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    """Give a queue with agents."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        with taskq.local_agents(near_queue, 4, "/"):
            yield shared_queue


@pytest.mark.thorough
@pytest.mark.parametrize("mixin", MIXINS, ids=lambda mixin: mixin.__name__)
def test_standard_tests_pass(executed: Client, mixin: type) -> None:
    """All of a mixin that apply."""

    class Case(mixin, unittest.TestCase):  # type: ignore[misc]
        worker_count = 4
        executor_type = staticmethod(partial(Executor, executed))

        def setUp(self) -> None:
            self.t1 = time.monotonic()
            self.executor = Executor(executed)

        def tearDown(self) -> None:
            self.executor.shutdown(wait=True, cancel_futures=True)

    names = unittest.defaultTestLoader.getTestCaseNames(Case)
    assert names
    result = unittest.TestResult()
    unittest.TestSuite(map(Case, names)).run(result)
    wrong = [f"{case.id()}: {text}" for case, text in result.failures + result.errors]
    assert not wrong, "\n".join(wrong)
    assert result.testsRun == len(names)


@pytest.mark.thorough
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


@pytest.mark.both_transports
def test_an_executor_whose_agents_cannot_start_leaves_nothing(
    queue: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number of slots that is none; no program, or no address of PostgreSQL."""
    with pytest.raises(UsageError, match="whole number"):
        Executor(queue, max_workers=2.0, path="/x")  # type: ignore[arg-type]
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises((FileNotFoundError, NotOverGateway)):
        Executor(queue, max_workers=2, path="/x")
    assert queue.queries.row("campaign", path="/x") is None
    assert queue.local_agents == []


def test_calls_that_have_not_begun_are_cancelled_at_shutdown(queue: Client) -> None:
    """Nobody serves this one, so all of them."""
    executor = Executor(queue)
    futures = [executor.submit(called.square, n) for n in range(3)]
    assert not futures[0].running()
    executor.shutdown(cancel_futures=True)
    assert all(future.cancelled() for future in futures)
    with pytest.raises(CancelledError):
        futures[0].result()


def test_shutdown_waits_for_callbacks(executed: Client) -> None:
    """They run in the thread that completes futures, which ends with the executor."""
    never, seen = threading.Event(), list[bool]()
    executor = Executor(executed)
    future = executor.submit(called.square, 3)
    future.add_done_callback(lambda _: seen.append(never.wait(1.0)))
    executor.shutdown()
    assert seen == [False]
