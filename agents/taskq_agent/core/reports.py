"""Conversion of ended attempts into reports, and of reports into lines of JSON and back."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Optional, Union

from taskq_agent.handlers.base import Ended
from taskq_agent.protocol import (
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
