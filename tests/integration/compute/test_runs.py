"""A function and its arguments become tasks, once, and their values come back."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import taskq
from taskq import Client, Seed
from taskq.compute import functions
from taskq.compute.tracker import Tracker
from taskq.model.errors import (
    CampaignPaused,
    FunctionChanged,
    InvalidTask,
    KeyConflict,
    TaskFailed,
    Unavailable,
    UsageError,
)
from tests.helpers.waiting import wait_until
from tests.payloads import called
from tests.payloads.called import BadLigand

WAIT_S = 120.0


def adder(n: int) -> Any:
    """Return a function that goes by value."""
    return lambda x: x + n


def test_values_come_in_order_and_by_name_and_by_value(served_queue: Client, name: str) -> None:
    """With parameters that all calls share."""
    run = served_queue.map(called.square, range(20), name=name, params={"power": 3})
    assert run.result(WAIT_S) == [n**3 for n in range(20)]
    assert list(run) == run.result()
    assert served_queue.map(adder(5), [1, 2], name=f"{name}/value").result(WAIT_S) == [6, 7]
    assert len(run) == 20
    assert "square" in repr(run)
    assert "20 of 20 done" in repr(run)


def test_asking_again_computes_nothing_twice(served_queue: Client, name: str) -> None:
    """A cell that is run again, with more arguments, and in another order."""
    first = served_queue.map(called.same, ["a", "b"], name=name)
    assert first.result(WAIT_S) == ["a", "b"]
    again = served_queue.map(called.same, ["c", "b", "a"], name=name)
    assert again.result(WAIT_S) == ["c", "b", "a"]
    assert sorted(outcome.index for outcome in again.as_completed(WAIT_S)) == [0, 1, 2]
    assert again.status().total == 3
    assert [attempt.attempt for attempt in again.campaign.attempts(_key(again, "a"))] == [1]


def _key(run: taskq.Run, argument: object) -> str:
    (outcome,) = [outcome for outcome in run.outcomes(WAIT_S) if outcome.argument == argument]
    return outcome.key


@pytest.mark.thorough
def test_equal_arguments_are_calls_of_their_own(served_queue: Client, name: str) -> None:
    """Three draws of one seed are three; asked again, they are the same three."""
    for _ in range(2):
        run = served_queue.map(called.same, [1, 1, 1], name=name)
        assert run.result(WAIT_S) == [1, 1, 1]
        assert run.status().total == 3


@pytest.mark.thorough
def test_records_of_files_keep_their_keys(served_queue: Client, name: str, tmp_path: Path) -> None:
    """A SMILES file gives ligands by name; results are fields that can be ranked."""
    file = tmp_path / "ligands.smi"
    file.write_text("CCO ethanol\nC methane\n")
    run = served_queue.map(called.scored, taskq.smiles(file), name=name, params={"factor": 2.0})
    assert run.result(WAIT_S) == [{"score": -6.0}, {"score": -2.0}]
    best = run.frame().nsmallest(1, "score").iloc[0]
    assert (best["key"], best["smiles"], best["score"]) == ("ethanol", "CCO", -6.0)
    table = run.arrow().read_all()
    assert table.column("score").to_pylist() == [-6.0, -2.0]
    with pytest.raises(KeyConflict, match="ethanol"):
        served_queue.map(
            called.scored, [Seed({"smiles": "X"}, "ethanol")], name=name, params={"factor": 2.0}
        )


def test_inputs_are_on_the_node(served_queue: Client, name: str, tmp_path: Path) -> None:
    """By their names."""
    (tmp_path / "receptor.pdbqt").write_text("ATOM")
    inputs = [tmp_path / "receptor.pdbqt"]
    run = served_queue.map(called.content, ["receptor.pdbqt"], name=name, inputs=inputs)
    assert run.result(WAIT_S) == ["ATOM"]


@pytest.mark.thorough
def test_arrays_and_objects_come_back_as_themselves(served_queue: Client, name: str) -> None:
    """Arrays by name; objects of the caller's own classes by value."""
    array = np.arange(6.0).reshape(2, 3)
    (back,) = served_queue.map(called.same, [array], name=name).result(WAIT_S)
    np.testing.assert_array_equal(back, array)

    def make(counts: Any) -> Any:
        counts.update("xyz")
        return counts

    import collections  # noqa: PLC0415

    (counter,) = served_queue.map(make, [collections.Counter("x")], name=f"{name}/object").result(
        WAIT_S
    )
    assert counter == collections.Counter("xxyz")
    assert type(counter) is collections.Counter


@pytest.mark.thorough
def test_exceptions_come_back_as_themselves(served_queue: Client, name: str) -> None:
    """With their attributes, and the traceback of where they were raised."""
    run = served_queue.map(called.refuse, [0, 1], name=name)
    with pytest.raises(BadLigand) as caught:
        run.result(WAIT_S)
    assert caught.value.number == 1
    assert caught.value.args == (1, "odd")
    assert "in refuse" in str(caught.value.__cause__)
    good, bad = run.outcomes()
    assert (good.value, good.ok, bad.ok) == (0, True, False)
    assert {outcome.index: outcome.ok for outcome in run.as_completed()} == {0: True, 1: False}
    assert [failure.error_class for failure in run.failures()] == [
        "tests.payloads.called.BadLigand"
    ]
    assert run.retry() == 1
    assert run.wait(WAIT_S).failed == 1

    def fail(x: int) -> int:
        return 1 // x

    with pytest.raises(ZeroDivisionError) as divided:
        served_queue.map(fail, [0], name=f"{name}/value").result(WAIT_S)
    assert "return 1 // x" in str(divided.value.__cause__)  # its source went with it


@pytest.mark.parametrize(
    ("function", "argument", "match"),
    [
        (called.die, 1, "signal-SIGKILL"),
        (called.generate, 1, "a generator cannot be stored"),
        (called.large, 70_000_000, "67108864 at most"),
    ],
)
def test_other_failures_say_what_has_happened(
    served_queue: Client, name: str, function: Any, argument: int, match: str
) -> None:
    """A process that died, a result that cannot be stored or is too large."""
    with pytest.raises(TaskFailed, match=match):
        served_queue.map(function, [argument], name=name).result(WAIT_S)


@pytest.mark.thorough
def test_exceptions_slow_nobody(served_queue: Client, name: str) -> None:
    """Neither the calls behind them, nor other campaigns of the same agents."""
    run = served_queue.map(called.refuse, [1] * 50 + [0] * 50, name=name)
    status = run.wait(WAIT_S)
    assert (status.done, status.failed) == (50, 50)
    assert all(agent.trouble is None for agent in served_queue.agents())


@pytest.mark.thorough
def test_task_starts_no_server(served_queue: Client, name: str) -> None:
    """It would be another queue than the one that the task came from."""
    with pytest.raises(taskq.UsageError, match="within a task"):
        served_queue.map(called.connect, ["here"], name=name).result(WAIT_S)


@pytest.mark.thorough
def test_results_that_need_trust_stop_nothing(served_queue: Client, name: str) -> None:
    """The others come; with trust all do."""

    def make(kind: str) -> object:
        import fractions  # noqa: PLC0415
        import http.cookies  # noqa: PLC0415

        return fractions.Fraction(1, 2) if kind == "known" else http.cookies.Morsel

    run = served_queue.map(make, ["known", "other"], name=name)
    known, other = run.outcomes(WAIT_S)
    assert str(known.value) == "1/2"
    with pytest.raises(taskq.ResultNotTrusted, match=r"http\.cookies"):
        _ = other.value
    import http.cookies  # noqa: PLC0415  # as the function does

    trusting = served_queue.map(make, ["other"], name=name, trust=[http.cookies.Morsel])
    assert trusting.result()[0].__name__ == "Morsel"


@pytest.mark.thorough
def test_missing_module_is_the_campaigns_fault_and_is_named(
    served_queue: Client, name: str
) -> None:
    """The campaign pauses itself, with the name; who asks again has mended that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a slow machine says it twice
        run = served_queue.map(called.import_what_is_missing, [1], name=name)
        for _ in range(2):
            with pytest.raises(CampaignPaused, match="needs the module not_on_any_node"):
                run.wait(WAIT_S)
            assert run.status().failures == 0
            run = served_queue.map(called.import_what_is_missing, [1], name=name)
            assert run.status().state == "open"
    run.cancel()


@pytest.mark.thorough
def test_another_function_never_gets_old_results(served_queue: Client, name: str) -> None:
    """Unless the caller says what shall become of them."""
    old = served_queue.map(adder(1), [1, 2], name=name)
    assert old.result(WAIT_S) == [2, 3]
    assert served_queue.map(adder(1), [1, 2], name=name).result() == [2, 3]
    with pytest.raises(FunctionChanged, match="2 of 2, are of another") as caught:
        served_queue.map(adder(10), [1, 2], name=name)
    assert caught.value.differs == ("function",)
    kept = served_queue.map(adder(10), [1, 2, 3], name=name, on_change="continue")
    assert kept.result(WAIT_S) == [2, 3, 13]
    anew = served_queue.map(adder(20), [1, 2], name=name, on_change="restart")
    assert anew.result(WAIT_S) == [21, 22]
    assert anew.status().total == 2


def test_params_with_equal_sets_are_no_change(queue: Client, name: str) -> None:
    """However they were made."""
    queue.map(called.same, [1], name=name, params={"of": {0, 8}})
    run = queue.map(called.same, [1], name=name, params={"of": {8, 0}})
    assert run.status().total == 1


def test_params_that_only_python_finds_equal_are_a_change(queue: Client, name: str) -> None:
    """As calls are kept apart; what the database writes otherwise is none."""
    alike = [1, True, 1.0]
    for place, value in enumerate(alike):
        queue.map(called.same, [1], name=f"{name}/{place}", params={"of": [value]})
        for other, its in enumerate(alike):
            refused = pytest.raises(FunctionChanged, match="params")
            with nullcontext() if other == place else refused:
                queue.map(called.same, [1], name=f"{name}/{place}", params={"of": [its]})
    params = {"b": [1e23, 1e-7, -0.0, 5e-324, 100.0], "a": {"é": None}}
    for _ in range(2):
        queue.map(called.same, [1], name=f"{name}/odd", params=params)


def test_other_params_and_inputs_are_a_change_as_well(
    queue: Client, name: str, tmp_path: Path
) -> None:
    """Results depend on them; time limits and the like are just changed."""
    file = tmp_path / "a"
    file.write_text("1")
    served = {"name": name, "inputs": [file], "params": {"power": 2}}
    run = queue.map(called.square, [1], **served)
    file.write_text("2")
    with pytest.raises(FunctionChanged) as caught:
        queue.map(called.square, [1], **served | {"params": {"power": 3}})
    assert caught.value.differs == ("params", "inputs")
    file.write_text("1")
    queue.map(called.square, [1], **served, time_limit_s=5.0)
    assert run.campaign.spec().time_limit_s == 5.0
    with pytest.raises(UsageError, match="on_change must be one of"):
        queue.map(called.square, [1], **served, on_change="maybe")  # type: ignore[arg-type]


@pytest.mark.thorough
def test_run_that_cannot_be_sent_is_refused_before_anything_is_stored(
    queue: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function of 200 MB, one that holds a lock, an argument that is too large or no data."""
    library, lock = np.zeros(25_000_000), threading.Lock()
    with pytest.raises(UsageError, match="32 MiB with all that it refers to, mostly for library"):
        queue.map(lambda x: library[x], [1], name=name)
    with pytest.raises(UsageError, match=r"cannot be sent because of lock: .*_thread\.lock"):
        queue.map(lambda _: lock.locked(), [1], name=name)
    assert name not in [child.path for child in queue.campaign("/").children()]
    monkeypatch.setattr(functions, "MAX_BLOB_BYTES", 90_000)
    with pytest.raises(InvalidTask, match=r"argument 1: .* inputs="):
        queue.map(called.same, [1, np.zeros(100_000)], name=name)
    with pytest.raises(InvalidTask, match="argument 0: an object cannot be stored"):
        queue.map(called.same, [object()], name=name)
    with pytest.raises(InvalidTask, match="cannot be sent: "):
        queue.map(lambda x: x, [lock], name=f"{name}/lock")
    with pytest.raises(UsageError, match="is not a function"):
        queue.map(7, [1], name=name)  # type: ignore[arg-type]
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidTask, match="contains itself"):
        queue.map(called.same, [loop], name=name)


def test_cancelled_calls_say_so_and_begin_again_when_asked(queue: Client, name: str) -> None:
    """Nobody serves them here."""
    run = queue.map(called.square, range(3), name=name)
    with pytest.raises(TimeoutError, match=r"3 tasks unfinished after 0\.01 s"):
        run.wait(0.01)
    assert run.cancel() == 3
    assert [type(outcome.error) for outcome in run.outcomes(WAIT_S)] == [CancelledError] * 3
    assert [outcome.status for outcome in run.as_completed(WAIT_S)] == ["cancelled"] * 3
    assert queue.map(called.square, range(3), name=name).status().waiting == 3


@pytest.mark.thorough
def test_waiting_costs_a_statement_for_each_look(
    queue: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the number of calls: counters are read, and nothing else if they have not moved."""
    run = queue.map(called.square, range(2_000), name=name)
    tracker = Tracker(queue.database, run.campaign.campaign_id, name)
    tracker.add(task.task_id for task in run.campaign.tasks())
    asked: list[str] = []
    rows = queue.database.rows
    monkeypatch.setattr(
        queue.database, "rows", lambda what, **how: asked.append(what) or rows(what, **how)
    )
    assert tracker.look() == []
    asked.clear()
    for _ in range(5):
        assert tracker.look() == []
    assert len(asked) <= 15  # not all pages were looked up yet
    queue.campaign(name).cancel()
    while tracker.pending:
        tracker.look()


def test_ctrl_c_leaves_the_tasks_and_the_run(queue: Client, name: str) -> None:
    """Anyone who waits is interrupted at once."""
    run = queue.map(called.square, [1], name=name)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        list(run.as_completed(WAIT_S))
    assert run.status().waiting == 1
    run.cancel()


def test_single_calls_are_futures_and_happen_once(served_queue: Client) -> None:
    """The same call has the same key, and its value at once."""
    future = served_queue.submit(called.square, 12, power=2)
    assert future.result(WAIT_S) == 144
    again = served_queue.submit(called.square, 12, power=2)
    assert (again.key, again.result(WAIT_S)) == (future.key, 144)
    assert len(future.campaign.attempts(future.key)) == 1
    with pytest.raises(BadLigand):
        served_queue.submit(called.refuse, 3).result(WAIT_S)
    future.campaign.remove()
    assert served_queue.submit(called.square, 12, power=2).result(WAIT_S) == 144


def test_futures_are_cancelled_unless_they_have_begun(queue: Client) -> None:
    """Nobody serves them here."""
    future = queue.submit(called.square, 13)
    assert not future.running()
    assert future.cancel()
    assert future.cancelled()
    with pytest.raises(CancelledError):
        future.result(WAIT_S)
    again = queue.submit(called.square, 13)
    assert again.task
    assert again.key == future.key
    assert queue.campaign(future.campaign.path).status().waiting == 1
    assert again.cancel()


def test_closing_the_queue_ends_what_waits_for_it(dsn: str) -> None:
    """The future hears of it, and no thread goes on asking."""
    queue = taskq.connect(dsn)
    future = queue.submit(called.square, 14)
    path = future.campaign.path
    queue.close()
    assert isinstance(future.exception(WAIT_S), Unavailable)
    wait_until(lambda: not any(thread.name == "taskq-futures" for thread in threading.enumerate()))
    with taskq.connect(dsn) as again:
        assert again.campaign(path).status().waiting == 1


def test_arguments_that_fail_midway_leave_those_before(queue: Client, name: str) -> None:
    """An iterable that raises; asked again, it goes on."""

    def broken() -> Iterator[int]:
        yield from range(150)
        raise OSError("the disk")

    with pytest.raises(OSError, match="the disk"):
        queue.map(called.square, broken(), name=name)
    assert queue.campaign(name).status().total == 100
    assert len(queue.map(called.square, range(150), name=name)) == 150
