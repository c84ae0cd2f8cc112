"""Reports on ended attempts, as messages and lines of JSON; counts of them, and log lines."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, fields, replace
from typing import List, Optional, Union

from taskq_agent.core.events import LogMessage
from taskq_agent.handlers.base import Ended
from taskq_agent.protocol import (
    ACCEPTED,
    DONE,
    DUPLICATE,
    FAILED,
    MAX_ERROR_CHARS,
    OUT_OF_TIME,
    OUTCOMES,
    RELEASED,
    Ack,
    Held,
    Report,
    Task,
    dumps,
)
from taskq_agent.text import clean

_FIELDS = frozenset(member.name for member in fields(Report))


def fence(thing: Union[Task, Report, Ack]) -> Held:
    """Return the fence of the attempt that a message is about."""
    return Held(thing.campaign, thing.task, thing.lease)


def ended_report(
    held: Held, ended: Ended, *, wait_s: float, stopped: bool, out_of_time_s: Optional[float] = None
) -> Report:
    """Return the report on an attempt that ran.

    wait_s: how long it waited for its slot. stopped: this agent stopped it, so a failure says
    nothing about the task. out_of_time_s: how long it had run when the agent's own time was up;
    None if it was not stopped for that.
    """
    outcome = RELEASED if ended.outcome == FAILED and stopped else ended.outcome
    cut_short = outcome == RELEASED and not (ended.node_broken or ended.refused)
    if cut_short and ended.started and out_of_time_s is not None:
        text = f"its agent's time was up after {out_of_time_s:.0f} s of it"
        ended = replace(ended, error_class=OUT_OF_TIME, error=text)
    return Report(
        campaign=held.campaign,
        task=held.task,
        lease=held.lease,
        outcome=RELEASED if ended.node_broken or ended.refused else outcome,
        result=ended.result,
        retry=ended.retry,
        started=ended.started,
        error_class=_storable(ended.error_class),
        error=_storable(ended.error),
        exit_code=ended.exit_code,
        tail=ended.tail,
        phases={"wait_s": round(wait_s, 6), **ended.phases},
        refused=ended.refused and not stopped,
    )


def unstarted_report(held: Held) -> Report:
    """Return the report that hands back a task that has not begun."""
    return Report(held.campaign, held.task, held.lease, RELEASED, started=False)


def refused_report(held: Held, error: str) -> Report:
    """Return the substitute for a report that the queue refuses; it carries the reason."""
    return Report(
        campaign=held.campaign,
        task=held.task,
        lease=held.lease,
        outcome=FAILED,
        retry=False,
        error_class="report-refused",
        error=_storable(error),
    )


def line(report: Report) -> bytes:
    """Return a report as one line of JSON."""
    return dumps(report).encode() + b"\n"


def parsed(text: bytes) -> Report:
    """Return the report in a line; ValueError if there is none.

    Members that this release does not know are ignored.
    """
    try:
        members = json.loads(text)
        numbers = [members["campaign"], members["task"]]
        if not (
            all(isinstance(number, int) for number in numbers)
            and isinstance(members["lease"], str)
            and members["outcome"] in OUTCOMES
        ):
            raise ValueError("not a report: a member has the wrong type")
        return Report(**{name: value for name, value in members.items() if name in _FIELDS})
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a report: {error!r}") from None


def _storable(text: Optional[str]) -> Optional[str]:
    return None if text is None else clean(text)[:MAX_ERROR_CHARS]


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
