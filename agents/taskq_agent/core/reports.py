"""Reports on ended attempts, as messages and lines of JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import Optional, Union

from taskq_agent.handlers.base import Ended
from taskq_agent.protocol import (
    FAILED,
    OUT_OF_TIME,
    RELEASED,
    Ack,
    Held,
    Report,
    Task,
)
from taskq_agent.wire import decoded, dumps, fitted


def fence(thing: Union[Task, Report, Ack]) -> Held:
    """Return the fence of the attempt that a message is about."""
    return Held(thing.campaign, thing.task, thing.lease)


def ended_report(
    held: Held,
    ended: Ended,
    *,
    wait_s: float,
    stopped: bool,
    out_of_time_s: Optional[float] = None,
    recipe: Optional[int] = None,
) -> Report:
    """Return the report on an attempt that ran.

    wait_s: how long it waited for its slot. stopped: this agent stopped it, so a failure says
    nothing about the task. out_of_time_s: how long it had run when the agent's own time was up;
    None if it was not stopped for that. recipe: that of the terms by which it ran.
    """
    outcome = RELEASED if ended.outcome == FAILED and stopped else ended.outcome
    cut_short = outcome == RELEASED and not (ended.node_broken or ended.refused)
    if cut_short and ended.started and out_of_time_s is not None:
        text = f"its agent's time was up after {out_of_time_s:.0f} s of it"
        ended = replace(ended, error_class=OUT_OF_TIME, error=text)
    report = Report(
        campaign=held.campaign,
        task=held.task,
        lease=held.lease,
        outcome=RELEASED if ended.node_broken or ended.refused else outcome,
        result=ended.result,
        retry=ended.retry,
        started=ended.started,
        error_class=ended.error_class,
        error=ended.error,
        exit_code=ended.exit_code,
        tail=ended.tail,
        phases={"wait_s": round(wait_s, 6), **ended.phases},
        refused=ended.refused and not stopped,
        recipe=recipe,
    )
    return fitted(report)


def unstarted_report(held: Held) -> Report:
    """Return the report that hands back a task that has not begun."""
    return Report(held.campaign, held.task, held.lease, RELEASED, started=False)


def handed_back_report(lost: Report, error: str) -> Report:
    """Return the substitute for a report whose result is lost: its task runs again."""
    report = Report(
        campaign=lost.campaign,
        task=lost.task,
        lease=lost.lease,
        outcome=RELEASED,
        error_class="result-upload",
        error=error,
        recipe=lost.recipe,
    )
    return fitted(report)


def refused_report(refused: Report, error: str) -> Report:
    """Return the substitute for a report that the queue refuses; it carries the reason."""
    report = Report(
        campaign=refused.campaign,
        task=refused.task,
        lease=refused.lease,
        outcome=FAILED,
        retry=False,
        error_class="report-refused",
        error=error,
        recipe=refused.recipe,
    )
    return fitted(report)


def line(report: Report) -> bytes:
    """Return a report as one line of JSON."""
    return dumps(report).encode() + b"\n"


def parsed(text: bytes) -> Report:
    """Return the report in a line; ValueError if there is none."""
    return decoded(Report, text)
