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
- `test_free_reference` returns objects of a class that is no data: `trust` names it.
- `test_map_timeout` sleeps for six seconds; `test_run.py` has timeouts of ours.
"""

from __future__ import annotations

import itertools
import threading
import time
import unittest
from collections.abc import Iterator
from concurrent.futures import CancelledError, wait
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import taskq
from taskq import Client, Executor
from taskq.model.errors import NotOverGateway, UsageError
from tests.integration.compute.standard_executor import (
    AsCompletedTests,
    ExecutorShutdownTest,
    ExecutorTest,
    MyObject,
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
        executor_type = staticmethod(partial(Executor, executed, trust=[MyObject]))

        def setUp(self) -> None:
            self.t1 = time.monotonic()
            self.executor = Executor(executed, trust=[MyObject])

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
def test_executor_brings_its_agents_and_leaves_nothing(queue: Client, tmp_path: Path) -> None:
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
def test_executor_whose_agents_cannot_start_leaves_nothing(
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


@pytest.mark.parametrize("word", ["exhaustiveness", "time_out", "chunk_size"])
def test_map_refuses_keywords_that_it_does_not_know(queue: Client, word: str) -> None:
    """As the standard library does: they are neither the function's nor dropped."""
    with Executor(queue) as executor:
        with pytest.raises(TypeError, match=word):
            executor.map(called.square, range(3), **{word: 32})
        assert queue.campaign(executor.path).status().total == 0


@pytest.mark.parametrize(("size", "kind"), [(0, ValueError), (-1, ValueError), ("2", TypeError)])
def test_map_refuses_a_buffer_that_is_none(queue: Client, size: Any, kind: type) -> None:
    """As Python 3.14 does."""
    with Executor(queue) as executor, pytest.raises(kind, match="buffersize must be"):
        executor.map(called.square, range(3), buffersize=size)


@pytest.mark.thorough
def test_map_with_a_buffer_reads_no_further_than_it(executed: Client) -> None:
    """So the arguments may have no end; each value taken lets the next call begin."""
    numbers = itertools.count()
    with Executor(executed) as executor:
        values = executor.map(called.square, numbers, buffersize=3)
        assert next(numbers) == 3
        assert [*itertools.islice(values, 2)] == [0, 1]
        assert next(numbers) == 6
        del values  # which cancels the rest
        assert [*executor.map(called.square, range(5), buffersize=2)] == [0, 1, 4, 9, 16]
        assert [*executor.map(called.square, buffersize=2)] == []


def test_calls_that_have_not_begun_are_cancelled_at_shutdown(queue: Client) -> None:
    """Nobody serves this one, so all of them."""
    executor = Executor(queue)
    futures = [executor.submit(called.square, n) for n in range(3)]
    assert not futures[0].running()
    executor.shutdown(cancel_futures=True)
    assert all(future.cancelled() for future in futures)
    with pytest.raises(CancelledError):
        futures[0].result()


@pytest.mark.thorough
def test_shutdown_waits_for_callbacks(executed: Client) -> None:
    """They run in the thread that completes futures, which ends with the executor."""
    never, seen = threading.Event(), list[bool]()
    executor = Executor(executed)
    future = executor.submit(called.square, 3)
    future.add_done_callback(lambda _: seen.append(never.wait(1.0)))
    executor.shutdown()
    assert seen == [False]


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_molecules_keep_what_they_have_to_agents_and_back(executed: Client) -> None:
    """Names, properties of molecules and atoms; nothing is set in RDKit for that, anywhere."""
    chem = pytest.importorskip("rdkit.Chem")
    ethanol = chem.MolFromSmiles("CCO")
    ethanol.SetProp("_Name", "ethanol")
    ethanol.SetIntProp("rank", 3)
    ethanol.GetAtomWithIdx(0).SetDoubleProp("charge", 0.5)

    def ranked(mol: Any) -> tuple[str, int, Any]:
        mol.SetIntProp("rank", mol.GetIntProp("rank") + 1)
        return mol.GetProp("_Name"), chem.GetDefaultPickleProperties(), mol

    with Executor(executed, trust=[chem.Mol]) as executor:
        parsed = executor.submit(chem.MolFromSmiles, "CCO", sanitize=False)
        held = executor.submit(lambda: ethanol.GetProp("_Name"))
        ((name, default, mol),) = executor.map(ranked, [ethanol])
        assert parsed.result(WAIT_S).GetNumAtoms() == 3
        assert held.result(WAIT_S) == "ethanol"
    assert (name, default) == ("ethanol", chem.GetDefaultPickleProperties())
    assert mol.GetPropsAsDict() == {"rank": 4}
    assert mol.GetAtomWithIdx(0).GetDoubleProp("charge") == 0.5
