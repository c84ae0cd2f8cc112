"""Encoding of reports for the server-side functions."""

from __future__ import annotations

from typing import Any

from taskq_agent.protocol import FAILED, RELEASED, Report


def encoded(report: Report, session: int, *, fenced: bool) -> dict[str, Any]:
    """Return a report as the server-side functions take it, without members that have defaults.

    session: the session that reports. fenced: whether the report counts only as far as that
    session's rights go.
    """
    body = {
        "task": report.task,
        "lease": report.lease,
        "outcome": report.outcome,
        "result": report.result,
        "error_class": report.error_class,
        "error": report.error,
        "exit_code": report.exit_code,
        "tail": report.tail,
        "phases": report.phases or None,
        "retry": report.retry if report.outcome == FAILED else None,
        "started": report.started if report.outcome == RELEASED else None,
        "refused": True if report.refused else None,
        "session" if fenced else "by": session,
    }
    return {name: value for name, value in body.items() if value is not None}
