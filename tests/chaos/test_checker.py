"""The checker on histories that were made up: one clean, and one for each anomaly."""

from __future__ import annotations

from collections.abc import Callable
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
    attempt_becomes(history, 9, 1, ended=4.0, salvaged=True)
    history.answers.append(Answer(1, "lease-1-1", "done", "duplicate", "run-1-1"))
    history.answers.append(Answer(2, "lease-2-9", "released", "accepted", None))
    return history


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    """Retries, losses, cancels, salvage, late executions and lost answers are no anomalies."""
    verdict = check(clean())
    assert verdict.anomalies == []
    assert (verdict.tasks, verdict.ok, verdict.recovered, verdict.executions) == (8, 8, 1, 11)
    assert verdict.goings_on == 1


def attempt_becomes(history: History, task: int, number: int, /, **changes: object) -> None:
    """Change the row of an attempt."""
    history.attempts = [
        replace(one, **changes) if (one.task, one.attempt) == (task, number) else one
        for one in history.attempts
    ]


def task_becomes(history: History, task: int, **changes: object) -> None:
    """Change the row of a task."""
    history.tasks = [replace(one, **changes) if one.task == task else one for one in history.tasks]


def acknowledged_task_is_missing(history: History) -> None:
    history.seeded["k7"] = 1.1


def task_never_ends(history: History) -> None:
    task_becomes(history, 5, status="working")


def key_is_there_twice(history: History) -> None:
    history.tasks.append(Task(10, "k5", "cancelled", 0))


def two_outcomes_are_accepted(history: History) -> None:
    attempt_becomes(history, 2, 1, outcome="done")


def attempts_go_on_after_the_result(history: History) -> None:
    history.attempts[1], history.attempts[2] = (
        replace(history.attempts[1], attempt=2),
        replace(history.attempts[2], attempt=1),
    )


def attempt_goes_on_after_another_is_salvaged(history: History) -> None:
    attempt_becomes(history, 9, 2, ended=4.1)


def report_is_accepted_twice(history: History) -> None:
    history.answers.append(history.answers[0])


def task_comes_from_nowhere(history: History) -> None:
    history.tasks.append(Task(10, "k10", "cancelled", 0))


def execution_begins_before_the_seeding(history: History) -> None:
    history.seeding["k1"] = 3.0


def execution_of_a_task_that_nobody_seeded(history: History) -> None:
    history.executions["run-10-1"] = Execution("a", "k10", 1, 2.0)


def second_lease_begins_while_the_first_lives(history: History) -> None:
    attempt_becomes(history, 3, 2, claimed=2.9)


def attempt_ends_before_it_begins(history: History) -> None:
    attempt_becomes(history, 5, 1, ended=1.0)


def two_attempts_have_one_lease(history: History) -> None:
    attempt_becomes(history, 3, 1, lease="lease-3-2")


def result_was_made_by_nobody(history: History) -> None:
    attempt_becomes(history, 1, 1, execution="run-0-0")


def result_is_missing(history: History) -> None:
    attempt_becomes(history, 1, 1, execution=None)


def result_is_that_of_another_attempt(history: History) -> None:
    attempt_becomes(history, 3, 2, execution="run-3-1")


def result_is_that_of_another_task(history: History) -> None:
    attempt_becomes(history, 1, 1, execution="run-6-1")


def failure_is_taken_for_a_result(history: History) -> None:
    history.executions["run-1-1"] = replace(history.executions["run-1-1"], outcome="failed")


def result_came_under_the_lease_of_another_agent(history: History) -> None:
    history.leases["a", 1, 1] = {"lease-0-0"}


def acknowledged_report_is_missing(history: History) -> None:
    history.answers.append(Answer(5, "lease-5-1", "done", "accepted", "run-5-1"))


def report_said_to_be_known_is_not(history: History) -> None:
    history.answers.append(Answer(3, "lease-3-1", "done", "duplicate", "run-3-1"))


def superseded_report_counts(history: History) -> None:
    history.answers[0] = replace(history.answers[0], verdict="superseded")


def cancelled_task_goes_on(history: History) -> None:
    history.orders.append(Order("cancel", "k6", 2.0, True))


def retried_task_stays_as_it_was(history: History) -> None:
    history.orders.append(Order("retry", "k4", 9.0, True))


def task_goes_on_though_all_like_it_are_cancelled(history: History) -> None:
    history.sweeps.append(Sweep("cancel", "3", 1.5, 1.9))


def failed_task_stays_though_all_are_retried(history: History) -> None:
    history.sweeps.append(Sweep("retry", "4", 8.0, 9.0))


def agent_is_let_in_where_it_is_banned(history: History) -> None:
    history.sessions["second"].opened = 4.0


def number_of_an_attempt_is_passed_over(history: History) -> None:
    attempt_becomes(history, 2, 1, attempt=0)


def attempt_is_not_recorded(history: History) -> None:
    task_becomes(history, 5, attempt=2)


def task_is_done_without_a_result(history: History) -> None:
    task_becomes(history, 4, status="done")


def task_is_not_done_with_a_result(history: History) -> None:
    task_becomes(history, 6, status="cancelled")


def task_is_failed_without_a_failure(history: History) -> None:
    task_becomes(history, 5, status="failed")


def checkpoint_goes_back(history: History) -> None:
    history.restored["run-3-2"] = Checkpoint("run-3-1", 2)


def checkpoint_is_forgotten(history: History) -> None:
    history.restored["run-3-2"] = Checkpoint("", 0)


def checkpoint_of_another_task_is_had(history: History) -> None:
    history.kept["run-2-1"] = 9
    history.restored["run-3-2"] = Checkpoint("run-2-1", 9)


def checkpoint_of_a_later_attempt_is_had(history: History) -> None:
    history.restored["run-3-1"] = Checkpoint("run-3-2", 5)


def checkpoint_that_nobody_kept_is_had(history: History) -> None:
    history.restored["run-3-2"] = Checkpoint("run-3-1", 5)


def checkpoint_is_saved_under_another_lease(history: History) -> None:
    history.saved.append(Checkpoint("run-3-1", 3, 3, "lease-3-2"))


@pytest.mark.parametrize(
    ("harm", "kind", "key"),
    [
        (acknowledged_task_is_missing, LOST, "k7"),
        (task_never_ends, LOST, "k5"),
        (key_is_there_twice, DUPLICATED, "k5"),
        (two_outcomes_are_accepted, DUPLICATED, "k2"),
        (attempts_go_on_after_the_result, DUPLICATED, "k2"),
        (attempt_goes_on_after_another_is_salvaged, DUPLICATED, "k9"),
        (report_is_accepted_twice, DUPLICATED, "k1"),
        (task_comes_from_nowhere, PHANTOM, "k10"),
        (execution_begins_before_the_seeding, PHANTOM, "k1"),
        (execution_of_a_task_that_nobody_seeded, PHANTOM, "k10"),
        (second_lease_begins_while_the_first_lives, OVERLAP, "k3"),
        (attempt_ends_before_it_begins, OVERLAP, "k5"),
        (two_attempts_have_one_lease, OVERLAP, "k3"),
        (result_was_made_by_nobody, FOREIGN, "k1"),
        (result_is_missing, FOREIGN, "k1"),
        (result_is_that_of_another_attempt, FOREIGN, "k3"),
        (result_is_that_of_another_task, FOREIGN, "k1"),
        (failure_is_taken_for_a_result, FOREIGN, "k1"),
        (result_came_under_the_lease_of_another_agent, FOREIGN, "k1"),
        (acknowledged_report_is_missing, VANISHED, "k5"),
        (report_said_to_be_known_is_not, VANISHED, "k3"),
        (superseded_report_counts, VANISHED, "k1"),
        (cancelled_task_goes_on, VANISHED, "k6"),
        (retried_task_stays_as_it_was, VANISHED, "k4"),
        (task_goes_on_though_all_like_it_are_cancelled, VANISHED, "k3"),
        (failed_task_stays_though_all_are_retried, VANISHED, "k4"),
        (agent_is_let_in_where_it_is_banned, INTRUDER, "a"),
        (checkpoint_goes_back, STALE, "k3"),
        (checkpoint_is_forgotten, STALE, "k3"),
        (checkpoint_of_another_task_is_had, FOREIGN, "k3"),
        (checkpoint_of_a_later_attempt_is_had, FOREIGN, "k3"),
        (checkpoint_that_nobody_kept_is_had, FOREIGN, "k3"),
        (checkpoint_is_saved_under_another_lease, FOREIGN, "k3"),
        (number_of_an_attempt_is_passed_over, GAP, "k2"),
        (attempt_is_not_recorded, GAP, "k5"),
        (task_is_done_without_a_result, GAP, "k4"),
        (task_is_not_done_with_a_result, GAP, "k6"),
        (task_is_failed_without_a_failure, GAP, "k5"),
    ],
)
def test_anomaly_is_found_and_named(harm: Callable[[History], None], kind: str, key: str) -> None:
    """One harm is done to the clean history; the checker says of which task and what kind it is."""
    history = clean()
    harm(history)
    verdict = check(history)
    assert (kind, key) in {(one.kind, one.key) for one in verdict.anomalies}
    assert {one.key for one in verdict.anomalies} == {key}
    assert verdict.count(kind) == 1
