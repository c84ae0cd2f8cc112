"""The checker on histories that were made up: one clean, and one for each anomaly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chaos.checker import (
    DUPLICATED,
    FOREIGN,
    GAP,
    INTRUDER,
    LOST,
    OVERLAP,
    PHANTOM,
    STALE,
    VANISHED,
    check,
)
from tests.chaos.harms import Harm, added, assert_found, attempt_row, task_row
from tests.chaos.history import (
    Answer,
    Attempt,
    Ban,
    Checkpoint,
    Execution,
    History,
    Order,
    Session,
    Sweep,
    Task,
)


def clean() -> History:
    """Return a history in which much happens and nothing is wrong.

    Task 1 is done at once; 2 after a failure; 3 after its agent was lost, whose execution comes to
    its end too late; 4 fails for good; 5 is cancelled while it runs; 6 was seeded without an answer
    and is there, 7 too and is not; 8 is cancelled, retried and done; 9 is lost and salvaged
    while another agent works on it. The first attempt of 3 keeps a fourth step and saves its third,
    from which the second goes on. All with a 5 in their keys are cancelled at 4, and all that had
    failed with a 2 are retried then, which has no answer. Host a is banned from 2 to 5; an agent
    there was let in before, another one was not.
    """
    history = History(
        seeding={f"k{number}": 1.0 for number in range(1, 10)},
        seeded=dict.fromkeys(("k1", "k2", "k3", "k4", "k5", "k8", "k9"), 1.1),
        sweeps=[Sweep("cancel", "5", 3.5, 4.0), Sweep("retry", "2", 3.5)],
        bans=[Ban("host", "a", 2.0, 5.0)],
        sessions={
            "first": Session("a", "here", 1.5, 2.5),
            "second": Session("a", "here", 3.0),
            "third": Session("a", "here", 3.0, 5.5),
            "fourth": Session("b", "here", 3.0, 3.5),
        },
        tasks=[
            Task(1, "k1", "done", 1),
            Task(2, "k2", "done", 2),
            Task(3, "k3", "done", 2),
            Task(4, "k4", "failed", 1),
            Task(5, "k5", "cancelled", 1),
            Task(6, "k6", "done", 1),
            Task(8, "k8", "done", 1),
            Task(9, "k9", "done", 2),
        ],
        orders=[
            Order("cancel", "k5", 2.5, True),
            Order("cancel", "k8", 1.5, True),
            Order("retry", "k8", 1.7, True),
            Order("cancel", "k1", 9.0, False),
            Order("cancel", "k2", 9.0, None),
        ],
    )
    for number, attempt, outcome, agent in (
        (1, 1, "done", "a"),
        (2, 1, "failed", "a"),
        (2, 2, "done", "b"),
        (3, 1, "lost", "a"),
        (3, 2, "done", "b"),
        (4, 1, "failed", "a"),
        (5, 1, "cancelled", "a"),
        (6, 1, "done", "b"),
        (8, 1, "done", "b"),
        (9, 1, "done", "a"),
        (9, 2, "cancelled", "b"),
    ):
        lease, execution = f"lease-{number}-{attempt}", f"run-{number}-{attempt}"
        history.leases[agent, number, attempt].add(lease)
        reported = outcome in {"done", "failed"}
        history.executions[execution] = Execution(
            agent, f"k{number}", attempt, 2.0, outcome if reported else "done"
        )
        history.attempts.append(
            Attempt(
                number,
                attempt,
                lease,
                outcome,
                1.0 + attempt,
                2.0 + attempt,
                execution if reported else None,
            )
        )
        verdict = "accepted" if reported else "superseded"
        history.answers.append(
            Answer(number, lease, outcome if reported else "done", verdict, execution)
        )
    history.kept |= {"run-3-1": 4, "run-3-2": 6}
    history.saved.append(Checkpoint("run-3-1", 3, 3, "lease-3-1"))
    history.restored |= {"run-3-1": Checkpoint("", 0), "run-3-2": Checkpoint("run-3-1", 3)}
    attempt_row(9, 1, ended=4.0, salvaged=True)(history)
    history.answers.append(Answer(1, "lease-1-1", "done", "duplicate", "run-1-1"))
    history.answers.append(Answer(2, "lease-2-9", "released", "accepted", None))
    return history


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    """Retries, losses, cancels, salvage, late executions and lost answers are no anomalies."""
    verdict = check(clean())
    assert verdict.anomalies == []
    assert (verdict.tasks, verdict.ok, verdict.recovered, verdict.executions) == (8, 8, 1, 11)
    assert verdict.goings_on == 1


def swap_attempts(history: History) -> None:
    """Exchange the numbers of the attempts of 2."""
    first, second = history.attempts[1:3]
    history.attempts[1:3] = replace(first, attempt=2), replace(second, attempt=1)


def make_run_a_failure(history: History) -> None:
    """Let the execution of 1 fail."""
    history.executions["run-1-1"] = replace(history.executions["run-1-1"], outcome="failed")


def supersede_the_report(history: History) -> None:
    """Let the first report be superseded."""
    history.answers[0] = replace(history.answers[0], verdict="superseded")


def let_in(history: History) -> None:
    """Let an agent be let in while its host is banned."""
    history.sessions["second"].opened = 4.0


def restored(execution: str, by: str, step: int) -> Harm:
    """Return what gives an execution another checkpoint."""
    return lambda it: it.restored.update({execution: Checkpoint(by, step)})


def keep_more_and_restore(history: History) -> None:
    """Let an execution of 2 keep a checkpoint, which one of 3 gets."""
    history.kept["run-2-1"] = 9
    history.restored["run-3-2"] = Checkpoint("run-2-1", 9)


FOREIGN_LEASE = {("a", 1, 1): {"lease-0-0"}}
STRANGER = Execution("a", "k10", 1, 2.0)
REPORT_5 = Answer(5, "lease-5-1", "done", "accepted", "run-5-1")
SAVED_3 = Checkpoint("run-3-1", 3, 3, "lease-3-2")
REPORT_3 = Answer(3, "lease-3-1", "done", "duplicate", "run-3-1")
HARMS: dict[str, tuple[str, str, Harm]] = {
    "acknowledged task is missing": (LOST, "k7", lambda it: it.seeded.update(k7=1.1)),
    "task never ends": (LOST, "k5", task_row(5, status="working")),
    "key is there twice": (DUPLICATED, "k5", added("tasks", Task(10, "k5", "cancelled", 0))),
    "two outcomes are accepted": (DUPLICATED, "k2", attempt_row(2, 1, outcome="done")),
    "attempts go on after the result": (DUPLICATED, "k2", swap_attempts),
    "attempt goes on after another is salvaged": (DUPLICATED, "k9", attempt_row(9, 2, ended=4.1)),
    "report is accepted twice": (DUPLICATED, "k1", lambda it: it.answers.append(it.answers[0])),
    "task comes from nowhere": (PHANTOM, "k10", added("tasks", Task(10, "k10", "cancelled", 0))),
    "execution begins before seeding": (PHANTOM, "k1", lambda it: it.seeding.update(k1=3.0)),
    "nobody seeded it": (PHANTOM, "k10", lambda it: it.executions.update({"run-10-1": STRANGER})),
    "second lease begins while the first lives": (OVERLAP, "k3", attempt_row(3, 2, claimed=2.9)),
    "attempt ends before it begins": (OVERLAP, "k5", attempt_row(5, 1, ended=1.0)),
    "two attempts have one lease": (OVERLAP, "k3", attempt_row(3, 1, lease="lease-3-2")),
    "result was made by nobody": (FOREIGN, "k1", attempt_row(1, 1, execution="run-0-0")),
    "result is missing": (FOREIGN, "k1", attempt_row(1, 1, execution=None)),
    "result is that of another attempt": (FOREIGN, "k3", attempt_row(3, 2, execution="run-3-1")),
    "result is that of another task": (FOREIGN, "k1", attempt_row(1, 1, execution="run-6-1")),
    "failure is taken for a result": (FOREIGN, "k1", make_run_a_failure),
    "lease of another agent": (FOREIGN, "k1", lambda it: it.leases.update(FOREIGN_LEASE)),
    "acknowledged report is missing": (VANISHED, "k5", added("answers", REPORT_5)),
    "report said to be known is not": (VANISHED, "k3", added("answers", REPORT_3)),
    "superseded report counts": (VANISHED, "k1", supersede_the_report),
    "cancelled task goes on": (VANISHED, "k6", added("orders", Order("cancel", "k6", 2.0, True))),
    "retried task stays": (VANISHED, "k4", added("orders", Order("retry", "k4", 9.0, True))),
    "one like those cancelled": (VANISHED, "k3", added("sweeps", Sweep("cancel", "3", 1.5, 1.9))),
    "one like those retried": (VANISHED, "k4", added("sweeps", Sweep("retry", "4", 8.0, 9.0))),
    "banned agent is let in": (INTRUDER, "a", let_in),
    "checkpoint goes back": (STALE, "k3", restored("run-3-2", "run-3-1", 2)),
    "checkpoint is forgotten": (STALE, "k3", restored("run-3-2", "", 0)),
    "checkpoint of another task is had": (FOREIGN, "k3", keep_more_and_restore),
    "checkpoint of a later attempt is had": (FOREIGN, "k3", restored("run-3-1", "run-3-2", 5)),
    "checkpoint that nobody kept is had": (FOREIGN, "k3", restored("run-3-2", "run-3-1", 5)),
    "checkpoint is saved under another lease": (FOREIGN, "k3", added("saved", SAVED_3)),
    "number of an attempt is passed over": (GAP, "k2", attempt_row(2, 1, attempt=0)),
    "attempt is not recorded": (GAP, "k5", task_row(5, attempt=2)),
    "task is done without a result": (GAP, "k4", task_row(4, status="done")),
    "task is not done with a result": (GAP, "k6", task_row(6, status="cancelled")),
    "task is failed without a failure": (GAP, "k5", task_row(5, status="failed")),
}


@pytest.mark.parametrize(("kind", "key", "harm"), HARMS.values(), ids=HARMS)
def test_anomaly_is_found_and_named(kind: str, key: str, harm: Harm) -> None:
    """One harm is done to the clean history; the checker says of which task and what kind it is."""
    history = clean()
    harm(history)
    assert_found(history, kind, key)
