"""Attempts that take far longer than others, and what is proposed for them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from taskq.diagnosis.hanging import overdue
from taskq.diagnosis.odd_readings import OddReadings
from taskq.diagnosis.overdue import OverdueAttempt

NOON = datetime(2026, 11, 1, 12, tzinfo=timezone.utc)


def explained(claims_s: list[float], last_s: float | None, *, limit_s: float = 60.0) -> Any:
    """Return the reason for attempts claimed so many seconds after noon.

    last_s: when the last task was claimed that has succeeded; None: none is known.
    """
    found = [
        OverdueAttempt(
            "/c", f"t{at}", f"n{at}", NOON + timedelta(seconds=at), 100.0 - at, 2.0, limit_s
        )
        for at in claims_s
    ]
    claimed = {} if last_s is None else {"/c": NOON + timedelta(seconds=last_s)}
    hosts = [SimpleNamespace(name=f"n{at}", slots=1) for at in range(16)]
    facts: Any = SimpleNamespace(
        status=SimpleNamespace(path="/c"),
        overdue=found,
        blockers=[],
        findings=SimpleNamespace(hosts=hosts, odd=OddReadings(claimed=claimed)),
    )
    (reason,) = overdue(facts)
    return reason


@pytest.mark.parametrize("number", [2, 5, 12])
def test_long_tasks_at_the_end_of_a_file_are_not_to_be_cancelled(number: int) -> None:
    """All that was claimed since takes long; a time limit would end all of it."""
    reason = explained([10.0 + it for it in range(number)], last_s=9.0)
    assert "No task that was claimed after them has ended" in reason.text
    assert [line.split()[1] for line in reason.commands] == ["logs"]


@pytest.mark.parametrize(
    ("claims_s", "last_s"), [([10.0, 20.0], 15.0), ([10.0], 9.0), ([10.0, 20.0], None)]
)
def test_tasks_that_hang_while_others_end_may_be_cancelled(
    claims_s: list[float], last_s: float | None
) -> None:
    """Also one alone, and where nothing is known of others."""
    verbs = [line.split()[1] for line in explained(claims_s, last_s).commands]
    assert {"cancel", "campaign"} <= {*verbs}
