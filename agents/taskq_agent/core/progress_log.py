"""Counts of an agent's ended attempts, and the log lines about them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import List

from taskq_agent.core.events import LogMessage
from taskq_agent.protocol import (
    ACCEPTED,
    DONE,
    DUPLICATE,
    FAILED,
    RELEASED,
    Ack,
    Report,
)

_NOTABLE_RUN_S = 10.0
_BETWEEN_FAILURES_S = 10.0
_BETWEEN_SUMMARIES_S = 60.0
_SHOWN_ERROR_CHARS = 200


@dataclass
class Totals:
    """How many attempts ended in each way; `superseded`: how many of all these did not count."""

    done: int = 0
    failed: int = 0
    released: int = 0
    superseded: int = 0


class ProgressLog:
    """Counts ended attempts and composes log messages about the notable ones."""

    def __init__(self, now: float) -> None:
        self.totals = Totals()
        self._summarised = Totals()
        self._summary_at = now + _BETWEEN_SUMMARIES_S
        self._failure_at = now

    def acknowledged(self, ack: Ack) -> None:
        """Count a verdict."""
        if ack.verdict not in (ACCEPTED, DUPLICATE):
            self.totals.superseded += 1

    def dropped(self) -> None:
        """Count a report that is given up."""
        self.totals.superseded += 1

    def replaced(self, report: Report) -> None:
        """Count an attempt as failed after all, since the queue refused its report."""
        self._count(report.outcome, -1)
        self._count(FAILED)

    def handed_back(self) -> None:
        """Count a task handed back without having begun."""
        self._count(RELEASED)

    def ended(self, key: str, took_s: float, report: Report, now: float) -> LogMessage:
        """Count an attempt that ran; return its message, INFO for long runs and some failures."""
        level = logging.INFO if took_s >= _NOTABLE_RUN_S else logging.DEBUG
        self._count(report.outcome)
        if report.outcome == FAILED and now >= self._failure_at:
            self._failure_at = now + _BETWEEN_FAILURES_S
            level = logging.INFO
        text, args = "task %s: %s after %.1f s", (key, report.outcome, took_s)
        if report.error_class is None:
            return LogMessage(level, text, args)
        error = " ".join((report.error or "").split())[:_SHOWN_ERROR_CHARS]
        return LogMessage(level, text + " (%s: %s)", (*args, report.error_class, error))

    def summary(self, running: int, to_report: int, now: float) -> List[LogMessage]:
        """Return a summary if one is due and the counts have changed."""
        if now < self._summary_at:
            return []
        self._summary_at = now + _BETWEEN_SUMMARIES_S
        if self.totals == self._summarised:
            return []
        totals = self._summarised = replace(self.totals)
        text = "%d done, %d failed, %d handed back; %d running, %d to report"
        counts = (totals.done, totals.failed, totals.released, running, to_report)
        return [LogMessage(logging.INFO, text, counts)]

    def _count(self, outcome: str, by: int = 1) -> None:
        if outcome == DONE:
            self.totals.done += by
        elif outcome == FAILED:
            self.totals.failed += by
        else:
            self.totals.released += by
