"""What is done to a history that was made up, so that the checker finds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from tests.chaos.checker import check
from tests.chaos.history import History

Harm: TypeAlias = Callable[[History], object]


def attempt_row(task: int, number: int, /, **changes: Any) -> Harm:
    """Return what changes the row of an attempt."""

    def harm(history: History) -> None:
        history.attempts = [
            replace(attempt, **changes)
            if (attempt.task, attempt.attempt) == (task, number)
            else attempt
            for attempt in history.attempts
        ]

    return harm


def task_row(task: int, **changes: Any) -> Harm:
    """Return what changes the row of a task."""

    def harm(history: History) -> None:
        history.tasks = [
            replace(other_task, **changes) if other_task.task == task else other_task
            for other_task in history.tasks
        ]

    return harm


def added(where: str, what: object) -> Harm:
    """Return what adds to one of the lists of a history."""
    return lambda history: getattr(history, where).append(what)


def assert_found(history: History, kind: str, key: str) -> None:
    """Assert that the checker finds one thing of a kind, and complains of that task alone."""
    verdict = check(history)
    assert (kind, key) in {(anomaly.kind, anomaly.key) for anomaly in verdict.anomalies}
    assert {anomaly.key for anomaly in verdict.anomalies} == {key}
    assert verdict.count(kind) == 1
