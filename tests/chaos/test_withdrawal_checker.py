"""The checker on histories with withdrawn results: one clean, and one for each anomaly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chaos.checker import DUPLICATED, FOREIGN, LOST, PHANTOM, VANISHED, check
from tests.chaos.harms import Harm, added, assert_found, attempt_row
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
    attempt_row(4, 1, claimed=1.5, ended=4.6, salvaged=True)(history)
    attempt_row(4, 2, claimed=3.0, ended=4.0)(history)
    history.answers.append(Answer(1, "lease-1-1", "done", "duplicate", "run-1-1"))
    history.answers.append(Answer(4, "lease-4-1", "done", "superseded", "run-4-1"))
    return history


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    """Results that follow, are salvaged or cancelled, and lost answers are no anomalies."""
    verdict = check(clean())
    assert verdict.anomalies == []
    assert (verdict.tasks, verdict.ok, verdict.withdrawn) == (5, 5, 4)


def withdraw_before_the_sweep(history: History) -> None:
    """Let the result of 1 be withdrawn before all that was like it was cancelled."""
    history.withdrawals[0] = replace(history.withdrawals[0], began=2.0, ended=3.1)


FAILURE_3 = Answer(3, "lease-3-1", "failed", "accepted", None)
HARMS: dict[str, tuple[str, str, Harm]] = {
    "no trace": (VANISHED, "k5", added("withdrawals", Withdrawal("k5", 5.0, True, 5.1))),
    "nobody has withdrawn it": (VANISHED, "k2", lambda it: it.withdrawals.pop(1)),
    "result before the withdrawn one counts": (DUPLICATED, "k4", attempt_row(4, 1, ended=3.9)),
    "it was that of another": (FOREIGN, "k1", attempt_row(1, 1, execution="run-2-1")),
    "accepted report is not the withdrawn one": (VANISHED, "k3", added("answers", FAILURE_3)),
    "task goes on after the sweep by itself": (VANISHED, "k1", withdraw_before_the_sweep),
    "reader learns of it twice": (PHANTOM, "k3", added("looks", Look([("k3", 1)], []))),
    "reader never had it": (PHANTOM, "k2", lambda it: it.looks[1].gone.append(("k2", 1))),
    "reader is given it twice": (DUPLICATED, "k5", added("looks", Look([], [("k5", 1)]))),
    "reader is not given the next": (LOST, "k1", lambda it: it.looks[2].given.remove(("k1", 2))),
    "reader does not learn of it": (LOST, "k3", lambda it: it.looks[1].gone.remove(("k3", 1))),
}


@pytest.mark.parametrize(("kind", "key", "harm"), HARMS.values(), ids=HARMS)
def test_anomaly_is_found_and_named(kind: str, key: str, harm: Harm) -> None:
    """One harm is done to the clean history; the checker says of which task and what kind it is."""
    history = clean()
    harm(history)
    assert_found(history, kind, key)
