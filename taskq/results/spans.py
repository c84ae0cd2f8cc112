"""Spans of a task: its attempts with their phases, and the waits between them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Final, TypeAlias

from taskq.model.views import Attempt

Attributes: TypeAlias = Mapping[str, str | int | float]

#: Phases in the order in which an attempt goes through them.
PHASES: Final = ("wait_s", "room_s", "fetch_s", "restore_s", "prepare_s", "run_s", "upload_s")
_USED: Final = ("cpu_s", "peak_bytes")
#: Limit of a number that an agent reports; larger ones are left out.
_MOST: Final = 1e15
_ERROR_CHARS: Final = 1_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """A part of a trace. Instants are nanoseconds since 1970. parent_id: empty for the first span.

    error: why it failed; None if it did not.
    """

    name: str
    span_id: bytes
    parent_id: bytes
    begin_ns: int
    end_ns: int
    attributes: Attributes = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """The spans of one task; the first span is that of the task."""

    trace_id: bytes
    spans: Sequence[TraceSpan]


def trace_of(
    path: str, created_at: datetime, task_id: int, key: str, attempts: Sequence[Attempt]
) -> Trace:
    """Return the trace of a task from its ended attempts, at least one.

    path, created_at: the campaign's. Ids depend only on campaign, task, and the numbers of
    attempts. The time of seeding is not recorded, so a trace begins with the first claim.
    """
    about = json.dumps([path, created_at.astimezone(timezone.utc).isoformat(), task_id])
    trace_id = _digest(about.encode())[:16]
    root_id = _span_id(trace_id, "task")
    # An attempt that a late success overtook comes behind it.
    decisive = next((one for one in attempts if one.outcome == "done"), attempts[-1])
    root = TraceSpan(
        f"task of {path}",
        root_id,
        b"",
        min(_ns(one.claimed_at) for one in attempts),
        max(_ns(one.ended_at) for one in attempts),
        {
            "taskq.campaign": path,
            "taskq.task.id": task_id,
            "taskq.task.key": key,
            "taskq.attempts": len(attempts),
        },
        _error(decisive),
    )
    spans = [root]
    for number, one in enumerate(attempts):
        before = attempts[number - 1] if number else one
        if number and one.claimed_at > before.ended_at:
            wait_id = _span_id(trace_id, "wait", one.attempt)
            begin_ns, end_ns = _ns(before.ended_at), _ns(one.claimed_at)
            spans.append(TraceSpan("wait to be claimed", wait_id, root_id, begin_ns, end_ns))
        spans += _of_attempt(trace_id, root_id, one)
    return Trace(trace_id, spans)


def _of_attempt(trace_id: bytes, root_id: bytes, one: Attempt) -> Iterator[TraceSpan]:
    """Yield the span of an attempt, from its claim to its report, and those of its phases.

    An agent reports how long each phase took: so phases follow each other from the claim on, and
    the rest at the end is the report's. No span is longer than the attempt, whatever was reported.
    """
    span_id = _span_id(trace_id, "attempt", one.attempt)
    begin_ns = _ns(one.claimed_at)
    end_ns = max(begin_ns, _ns(one.ended_at))
    phases: Mapping[str, object] = one.phases or {}
    measured = {
        name: float(value)
        for name, value in phases.items()
        if isinstance(value, (int, float)) and 0 < value < _MOST
    }
    facts = {
        "taskq.agent": one.agent,
        "taskq.site": one.site,
        "host.name": one.host,
        "process.exit.code": one.exit_code,
        "error.type": one.error_class,
        **{f"taskq.{name}": measured.get(name) for name in _USED},
    }
    attributes: dict[str, str | int | float] = {
        "taskq.attempt": one.attempt,
        "taskq.outcome": one.outcome,
    }
    attributes |= {name: value for name, value in facts.items() if value is not None}
    yield TraceSpan("attempt", span_id, root_id, begin_ns, end_ns, attributes, _error(one))
    at_ns = begin_ns
    for name in PHASES:
        if name in measured:
            until_ns = min(end_ns, at_ns + int(measured[name] * _NS))
            phase_id = _span_id(trace_id, name, one.attempt)
            yield TraceSpan(name.removesuffix("_s"), phase_id, span_id, at_ns, until_ns)
            at_ns = until_ns
    if begin_ns < at_ns < end_ns:
        yield TraceSpan("report", _span_id(trace_id, "report", one.attempt), span_id, at_ns, end_ns)


def _error(one: Attempt) -> str | None:
    if one.outcome == "done":
        return None
    return ": ".join(filter(None, (one.error_class, one.error)))[:_ERROR_CHARS] or one.outcome


def _ns(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1) * 1_000


def _span_id(trace_id: bytes, what: str, attempt: int = 0) -> bytes:
    return _digest(trace_id + f"{what} {attempt}".encode())[:8]


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()
