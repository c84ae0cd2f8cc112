"""Logs of what others cause."""

from __future__ import annotations

import logging

from taskq.dispatch.campaign_faults import MOST, PERIOD_S, Seldom


def test_what_others_cause_is_logged_a_few_times_a_minute() -> None:
    """Of each kind; the first of the next minute says how many were left out."""
    now = [0.0]
    seldom = Seldom(clock=lambda: now[0])

    def written(text: str) -> str | None:
        record = logging.LogRecord("x", logging.WARNING, "", 0, text, (1,), None)
        return str(record.msg) if seldom.filter(record) else None

    assert [written("odd %d") for _ in range(MOST)] == ["odd %d"] * MOST
    assert [written("odd %d") for _ in range(1_000)] == [None] * 1_000
    assert written("other %d") == "other %d"
    now[0] += PERIOD_S
    assert written("odd %d") == "odd %d (and 1000 more like this before)"
    assert written("odd %d") == "odd %d"
