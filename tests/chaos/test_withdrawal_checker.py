"""The checker on histories with withdrawn results: one clean, and one for each anomaly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.chaos.checker import DUPLICATED, FOREIGN, LOST, PHANTOM, VANISHED, check
from tests.chaos.history import (
    Answer,
    Attempt,
    Execution,
    History,
    Look,
    Sweep,
    Task,
    Withdrawal,
)


def clean() -> History:
    """Return a history in which results are withdrawn and nothing is wrong.

    The result of 1 is withdrawn, and the next one read; that of 2 without an answer, before it was
    read; 3 is withdrawn and cancelled; 4 is lost, done by another attempt, and salvaged after that
    is withdrawn. A withdrawal of 5 finds nothing, and one without an answer has done nothing. All
    with a 1 were cancelled before the withdrawal.
    """
    history = History(
        seeding={f"k{number}": 1.0 for number in range(1, 6)},
        seeded={f"k{number}": 1.1 for number in range(1, 6)},
        sweeps=[Sweep("cancel", "1", 3.2, 3.4)],
        withdrawals=[
            Withdrawal("k1", 3.3, moved=True, ended=3.5),
            Withdrawal("k2", 3.3),
            Withdrawal("k3", 3.3, moved=True, ended=3.5),
            Withdrawal("k4", 4.3, moved=True, ended=4.5),
            Withdrawal("k5", 1.5, moved=False, ended=1.6),
            Withdrawal("k5", 3.3),
        ],
        looks=[
            Look([], [("k1", 1), ("k3", 1)]),
            Look([("k1", 1), ("k3", 1)], [("k2", 2), ("k4", 2)]),
            Look([("k4", 2)], [("k1", 2), ("k4", 1), ("k5", 1)]),
        ],
        tasks=[
            Task(1, "k1", "done", 2),
            Task(2, "k2", "done", 2),
            Task(3, "k3", "cancelled", 1),
            Task(4, "k4", "done", 2),
            Task(5, "k5", "done", 1),
        ],
    )
    for number, attempt, outcome in (
        (1, 1, "withdrawn"),
        (1, 2, "done"),
        (2, 1, "withdrawn"),
        (2, 2, "done"),
        (3, 1, "withdrawn"),
        (4, 1, "done"),
        (4, 2, "withdrawn"),
        (5, 1, "done"),
    ):
        lease, execution = f"lease-{number}-{attempt}", f"run-{number}-{attempt}"
        history.leases["a", number, attempt].add(lease)
        history.executions[execution] = Execution("a", f"k{number}", attempt, 2.0, "done")
        times = 1.0 + 2 * attempt, 2.0 + 2 * attempt
        history.attempts.append(Attempt(number, attempt, lease, outcome, *times, execution))
        history.answers.append(Answer(number, lease, "done", "accepted", execution))
    becomes(history, 4, 1, claimed=1.5, ended=4.6, salvaged=True)
    becomes(history, 4, 2, claimed=3.0, ended=4.0)
    history.answers.append(Answer(1, "lease-1-1", "done", "duplicate", "run-1-1"))
    history.answers.append(Answer(4, "lease-4-1", "done", "superseded", "run-4-1"))
    return history


def becomes(history: History, task: int, number: int, /, **changes: object) -> None:
    """Change the row of an attempt."""
    history.attempts = [
        replace(one, **changes) if (one.task, one.attempt) == (task, number) else one
        for one in history.attempts
    ]


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    """Results that follow, are salvaged or cancelled, and lost answers are no anomalies."""
    verdict = check(clean())
    assert verdict.anomalies == []
    assert (verdict.tasks, verdict.ok, verdict.withdrawn) == (5, 5, 4)


def withdrawal_has_left_no_trace(history: History) -> None:
    history.withdrawals.append(Withdrawal("k5", 5.0, moved=True, ended=5.1))


def nobody_has_withdrawn_it(history: History) -> None:
    history.withdrawals = [one for one in history.withdrawals if one.key != "k2"]


def result_before_the_withdrawn_one_counts(history: History) -> None:
    becomes(history, 4, 1, ended=3.9)


def withdrawn_result_was_that_of_another(history: History) -> None:
    becomes(history, 1, 1, execution="run-2-1")


def accepted_report_is_not_the_withdrawn_one(history: History) -> None:
    history.answers.append(Answer(3, "lease-3-1", "failed", "accepted", None))


def task_goes_on_after_the_sweep_by_itself(history: History) -> None:
    history.withdrawals[0] = replace(history.withdrawals[0], began=2.0, ended=3.1)


def reader_learns_of_it_twice(history: History) -> None:
    history.looks.append(Look([("k3", 1)], []))


def reader_never_had_it(history: History) -> None:
    history.looks[1].gone.append(("k2", 1))


def reader_is_given_it_twice(history: History) -> None:
    history.looks.append(Look([], [("k5", 1)]))


def reader_is_not_given_the_next_one(history: History) -> None:
    history.looks[2].given.remove(("k1", 2))


def reader_does_not_learn_of_it(history: History) -> None:
    history.looks[1].gone.remove(("k3", 1))


@pytest.mark.parametrize(
    ("harm", "kind", "key"),
    [
        (withdrawal_has_left_no_trace, VANISHED, "k5"),
        (nobody_has_withdrawn_it, VANISHED, "k2"),
        (result_before_the_withdrawn_one_counts, DUPLICATED, "k4"),
        (withdrawn_result_was_that_of_another, FOREIGN, "k1"),
        (accepted_report_is_not_the_withdrawn_one, VANISHED, "k3"),
        (task_goes_on_after_the_sweep_by_itself, VANISHED, "k1"),
        (reader_learns_of_it_twice, PHANTOM, "k3"),
        (reader_never_had_it, PHANTOM, "k2"),
        (reader_is_given_it_twice, DUPLICATED, "k5"),
        (reader_is_not_given_the_next_one, LOST, "k1"),
        (reader_does_not_learn_of_it, LOST, "k3"),
    ],
)
def test_anomaly_is_found_and_named(harm: Callable[[History], None], kind: str, key: str) -> None:
    """One harm is done to the clean history; the checker says of which task and what kind it is."""
    history = clean()
    harm(history)
    found = {(one.kind, one.key) for one in check(history).anomalies}
    assert (kind, key) in found
    assert {one for _, one in found} == {key}
