"""Functions that get lists of arguments: each argument is a task with its own value."""

from __future__ import annotations

import pytest

from taskq import Client, UsageError
from tests.payloads import called_together

WAIT_S = 120.0


def test_each_argument_of_a_list_has_its_own_value_or_exception(
    served_queue: Client, name: str
) -> None:
    run = served_queue.map(called_together.squares, range(20), name=name, batch=8)
    outcomes = list(run.outcomes(WAIT_S))
    assert [
        outcome.value if outcome.ok else None
        for outcome in sorted(outcomes, key=lambda outcome: outcome.index)
    ] == [None if n % 10 == 3 else n * n for n in range(20)]
    assert {type(outcome.error) for outcome in outcomes if not outcome.ok} == {ValueError}
    assert served_queue.campaign(name).status().total == 20


def test_lists_are_as_long_as_the_caller_says(served_queue: Client, name: str) -> None:
    values = served_queue.map(called_together.sizes, range(100), name=name, batch=30)
    assert max(values.results(WAIT_S, progress=False)) == 30


def test_argument_that_kills_the_process_is_found(served_queue: Client, name: str) -> None:
    run = served_queue.map(called_together.deadly, range(12), name=name, batch=12)
    outcomes = sorted(run.outcomes(WAIT_S), key=lambda outcome: outcome.index)
    assert [outcome.index for outcome in outcomes if not outcome.ok] == [7]
    assert "SIGKILL" in str(outcomes[7].error)


def test_batches_and_chunks_exclude_each_other(queue: Client, name: str) -> None:
    with pytest.raises(UsageError, match="batch does not go with chunksize"):
        queue.map(called_together.sizes, [1], name=name, batch=2, chunksize=2)  # type: ignore[call-overload]
