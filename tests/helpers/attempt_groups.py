"""Groups of attempts, for statistics over them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from taskq.diagnosis.blame import FailureVerdict, TaskFates, blame
from taskq.diagnosis.evidence import RunTimeSums
from taskq.diagnosis.sample import AttemptGroup


def group(
    host: str,
    outcome: str = "done",
    attempts: int = 1,
    *,
    site: str = "s",
    campaign: str = "/c",
    error_class: str | None = None,
    times: RunTimeSums | None = None,
    outdated: bool = False,
) -> AttemptGroup:
    """Return attempts that ended alike, each of them after a second."""
    ran = times or RunTimeSums(attempts)
    session = abs(hash((host, site)))
    return AttemptGroup(
        *(
            campaign,
            session,
            host,
            site,
            1,
            True,
            outcome,
            error_class,
            outdated,
            attempts,
            attempts,
        ),
        *(float(attempts), ran.logs, ran.squares, None, None, None),
    )


def failed(host: str, attempts: int, error_class: str = "exit-1", site: str = "s") -> AttemptGroup:
    """Return attempts that failed."""
    return group(host, "failed", attempts, site=site, error_class=error_class)


def ran(seconds: Iterable[float]) -> RunTimeSums:
    """Return what is known of run times."""
    logs = [math.log(number) for number in seconds]
    return RunTimeSums(len(logs), sum(logs), sum(number * number for number in logs))


def verdict(
    sample: list[AttemptGroup],
    again: int = 0,
    then_done: int = 0,
    error_class: str = "exit-1",
    **more: Any,
) -> FailureVerdict:
    """Judge the failures of a class."""
    failures = [
        attempts
        for attempts in sample
        if attempts.error_class == error_class and not attempts.outdated
    ]
    attempts = sum(attempts.attempts for attempts in failures)
    fates = TaskFates(
        "/c", error_class, attempts, attempts, again, then_done, max_attempts=3, **more
    )
    (found,) = [it for it in blame(sample, [fates], 9) if it.error_class == error_class]
    return found
