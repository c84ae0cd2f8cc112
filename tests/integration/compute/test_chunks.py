"""Short calls go many at a time as one task, each with a value or an exception of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import taskq
from taskq import Client, Seed
from taskq.compute import chunks
from taskq.compute.outcomes import OutcomeReader
from taskq.compute.trust import ResultReader
from taskq.model.errors import ResultNotTrusted, TaskFailed, UsageError
from tests.payloads import called

WAIT_S = 120.0


def odd_ones_raise(number: int) -> Any:
    """Return the number; fail in all ways that a call can."""
    if number == 3:
        raise KeyError(number)
    if number == 5:
        return float
    return number


def test_values_come_in_order_and_are_computed_once(served_queue: Client, name: str) -> None:
    """Also by value, for several arguments, and in another program."""
    for _ in range(2):
        run = served_queue.map(called.square, range(20), name=name, chunksize=7)
        assert run.result(WAIT_S) == [n**2 for n in range(20)]
        assert (len(run), run.status().total) == (20, 3)
        assert [attempt.attempt for attempt in run.campaign.attempts(_keys(run)[0])] == [1]
    outcomes = sorted(run.as_completed(WAIT_S), key=lambda outcome: outcome.index)
    assert [(outcome.index, outcome.argument, outcome.value) for outcome in outcomes] == [
        (n, n, n**2) for n in range(20)
    ]
    found = served_queue.run(name)
    assert found.result(WAIT_S) == run.result()
    assert found.frame()["value"].to_list() == run.result()
    assert run.arrow().read_all().column("value").to_pylist() == run.result()
    by_value = served_queue.starmap(
        lambda x, y: {x, y}, [(1, 2), (3, 4)], name=f"{name}/value", chunksize=2
    )
    assert by_value.result(WAIT_S) == [{1, 2}, {3, 4}]
    assert by_value.status().total == 1


def _keys(run: taskq.Run[Any]) -> list[str]:
    return [*dict.fromkeys(outcome.key for outcome in run.outcomes(WAIT_S))]


def test_equal_arguments_are_calls_of_their_own(served_queue: Client, name: str) -> None:
    """Also if whole chunks are equal; asked again, they are the same."""
    for _ in range(2):
        run = served_queue.map(called.same, [1] * 7, name=name, chunksize=2)
        assert run.result(WAIT_S) == [1] * 7
        assert run.status().total == 4


def test_call_that_raises_costs_no_other_its_value(served_queue: Client, name: str) -> None:
    """The others have values, and the task is done."""
    run = served_queue.map(odd_ones_raise, range(7), name=name, chunksize=7)
    values = [
        outcome.value if outcome.ok else type(outcome.error) for outcome in run.outcomes(WAIT_S)
    ]
    assert values == [0, 1, 2, KeyError, 4, TaskFailed, 6]
    errors = [outcome.error for outcome in run.outcomes() if not outcome.ok]
    assert "odd_ones_raise" in str(errors[0].__cause__ if errors[0] else "")
    assert "cannot be stored" in str(errors[1])
    assert run.status().done == 1
    for rows in (run.frame, lambda: run.arrow().read_all().to_pandas()):
        with pytest.warns(UserWarning, match="2 of the 7 calls .* have no row .2 failed"):
            assert rows()["value"].to_list() == [0, 1, 2, 4, 6]
    assert run.frame(so_far=True)["value"].to_list() == [0, 1, 2, 4, 6]
    with pytest.raises(KeyError):
        run.result()


def test_end_of_an_attempt_ends_all_calls_of_its_chunk(served_queue: Client, name: str) -> None:
    """Each call has the error of the task, or is cancelled with it."""

    def final(number: int) -> int:
        if number == 1:
            raise taskq.FailForGood("no")
        return number

    run = served_queue.map(final, range(4), name=name, chunksize=2)
    ends = [type(outcome.error) for outcome in run.outcomes(WAIT_S)]
    assert ends == [taskq.FailForGood, taskq.FailForGood, type(None), type(None)]
    assert len([*run.failures()]) == 1
    assert run.retry() == 1
    assert not run.wait(WAIT_S).unfinished


def test_first_calls_show_how_many_go_together(
    served_queue: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked again, the chunks are the same; calls that take too long stay alone."""
    monkeypatch.setattr(chunks, "MEASURE_S", WAIT_S)
    for together_s, total in ((1e6, chunks.MEASURED + 2), (0.0, 1_200)):
        path = f"{name}/{total}"
        monkeypatch.setattr(chunks, "CHUNK_S", together_s)
        for _ in range(2):
            run = served_queue.map(abs, range(1_200), name=path, chunksize="auto")
            assert run.status().total == total
            monkeypatch.setattr(chunks, "CHUNK_S", 1e6)
        assert run.result(WAIT_S) == [*range(1_200)]


def test_without_agents_each_call_is_a_task(
    queue: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can say how long they take."""
    monkeypatch.setattr(chunks, "MEASURE_S", 0.0)
    count = chunks.MEASURED + 5
    run = queue.map(abs, range(count), name=name, chunksize="auto")
    assert run.status().total == count
    assert queue.map(abs, range(count + 1), name=name, chunksize="auto").status().total == count + 1
    assert queue.map(abs, [1], name=f"{name}/few", chunksize="auto").status().total == 1


def test_calls_too_large_for_a_chunk_stay_alone(queue: Client, name: str) -> None:
    """Large arguments, records of files, and payloads that would break a limit together."""
    large = np.zeros(20_000)
    record = Seed({"smiles": "C"}, "methane")
    deep: Any = 1
    for _ in range(60):
        deep = [deep]
    run = queue.map(
        called.same, [1, 2, large, record, 3, 4, deep, *["x" * 9_000] * 9], name=name, chunksize=100
    )
    keys = [task.key for task in run.campaign.tasks()]
    assert [chunks.calls_in(key) for key in keys] == [2, *[1] * 9, 4, 1]
    assert len(run) == 16
    assert "methane" in keys


def test_limits_are_named(queue: Client, name: str) -> None:
    """Sizes that are none, and what cannot be done with chunks."""
    for size in (0, 1_001, True, 2.5, "some"):
        with pytest.raises(UsageError, match="chunksize must be"):
            queue.map(abs, [1], name=name, chunksize=size)  # type: ignore[call-overload]
    run = queue.map(abs, range(4), name=name, chunksize=2)
    with pytest.raises(UsageError, match="has chunks"):
        run.best(by="value", n=1)
    assert run.cancel() == 2
    best = queue.map(abs, [1], name=f"{name}/one").best(by="value", n=1)
    with pytest.raises(UsageError, match="does not go with the best"):
        queue.map(abs, best, name=f"{name}/two", chunksize=2)


@pytest.mark.parametrize(
    "result",
    [None, {}, {"value": 1}, {"value": {"$calls": {}}}, {"value": {"$calls": [1]}}, {"$calls": []}],
)
def test_results_of_another_form_are_not_read(queue: Client, result: Any) -> None:
    """An agent may send anything."""
    reader = OutcomeReader(queue.queries, 1, ResultReader())
    with pytest.raises(ResultNotTrusted, match="not that of 2 calls"):
        list(reader.ends(1, 1, "key", result, 2))


def test_one_bad_value_of_a_chunk_is_an_error_of_its_call(queue: Client) -> None:
    """The others are read."""
    reader = OutcomeReader(queue.queries, 1, ResultReader(by_value=False))
    result = {"value": {"$calls": [1, {"$pickle": ["gARLAS4="]}, {"$raised": 5}, {"$raised": {}}]}}
    ends = [*reader.ends(1, 1, "key", result, 4)]
    assert ends[0] == (1, None)
    assert [type(error) for _, error in ends[1:]] == [
        ResultNotTrusted,
        ResultNotTrusted,
        TaskFailed,
    ]
