"""Traces of tasks that have ended since a cursor: their spans, and how they are sent.

A trace has a span for the task, for each attempt with its phases, and for the waits between.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Final, Protocol, TypeAlias

from taskq.db.access import Queries, pages
from taskq.db.rows import Row
from taskq.db.stones import unknown_campaign
from taskq.model.seed import check_path
from taskq.model.views import Attempt, Status
from taskq.results.cursor import Cursor
from taskq.results.following import REST, follow, look

Attributes: TypeAlias = Mapping[str, str | int | float]

#: Phases in the order in which an attempt goes through them.
PHASES: Final = ("wait_s", "room_s", "fetch_s", "restore_s", "prepare_s", "run_s", "upload_s")
_USED: Final = ("cpu_s", "peak_bytes", "gpu_peak_bytes")
#: Limit of a number that an agent reports; larger ones are left out.
_MOST: Final = 1e15
_ERROR_CHARS: Final = 1_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NS: Final = 1_000_000_000

#: Spans after which a request is full.
MOST_SPANS: Final = 2_000


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
    decisive = next((attempt for attempt in attempts if attempt.outcome == "done"), attempts[-1])
    root = TraceSpan(
        f"task of {path}",
        root_id,
        b"",
        min(_ns(attempt.claimed_at) for attempt in attempts),
        max(_ns(attempt.ended_at) for attempt in attempts),
        {
            "taskq.campaign": path,
            "taskq.task.id": task_id,
            "taskq.task.key": key,
            "taskq.attempts": len(attempts),
        },
        _error(decisive),
    )
    spans = [root]
    for number, attempt in enumerate(attempts):
        before = attempts[number - 1] if number else attempt
        if number and attempt.claimed_at > before.ended_at:
            wait_id = _span_id(trace_id, "wait", attempt.attempt)
            begin_ns, end_ns = _ns(before.ended_at), _ns(attempt.claimed_at)
            spans.append(TraceSpan("wait to be claimed", wait_id, root_id, begin_ns, end_ns))
        spans += _of_attempt(trace_id, root_id, attempt)
    return Trace(trace_id, spans)


def _of_attempt(trace_id: bytes, root_id: bytes, attempt: Attempt) -> Iterator[TraceSpan]:
    """Yield the span of an attempt, from its claim to its report, and those of its phases.

    An agent reports how long each phase took: so phases follow each other from the claim on, and
    the rest at the end is the report's. No span is longer than the attempt, whatever was reported.
    """
    span_id = _span_id(trace_id, "attempt", attempt.attempt)
    begin_ns = _ns(attempt.claimed_at)
    end_ns = max(begin_ns, _ns(attempt.ended_at))
    phases: Mapping[str, object] = attempt.phases or {}
    measured = {
        name: float(value)
        for name, value in phases.items()
        if isinstance(value, (int, float)) and 0 < value < _MOST
    }
    facts = {
        "taskq.agent": attempt.agent,
        "taskq.site": attempt.site,
        "host.name": attempt.host,
        "process.exit.code": attempt.exit_code,
        "error.type": attempt.error_class,
        **{f"taskq.{name}": measured.get(name) for name in _USED},
    }
    attributes: dict[str, str | int | float] = {
        "taskq.attempt": attempt.attempt,
        "taskq.outcome": attempt.outcome,
    }
    attributes |= {name: value for name, value in facts.items() if value is not None}
    yield TraceSpan("attempt", span_id, root_id, begin_ns, end_ns, attributes, _error(attempt))
    at_ns = begin_ns
    for name in PHASES:
        if name in measured:
            until_ns = min(end_ns, at_ns + int(measured[name] * _NS))
            phase_id = _span_id(trace_id, name, attempt.attempt)
            yield TraceSpan(name.removesuffix("_s"), phase_id, span_id, at_ns, until_ns)
            at_ns = until_ns
    if begin_ns < at_ns < end_ns:
        yield TraceSpan(
            "report", _span_id(trace_id, "report", attempt.attempt), span_id, at_ns, end_ns
        )


def _error(attempt: Attempt) -> str | None:
    if attempt.outcome == "done":
        return None
    return (
        ": ".join(filter(None, (attempt.error_class, attempt.error)))[:_ERROR_CHARS]
        or attempt.outcome
    )


def _ns(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1) * 1_000


def _span_id(trace_id: bytes, what: str, attempt: int = 0) -> bytes:
    return _digest(trace_id + f"{what} {attempt}".encode())[:8]


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()


class TraceReceiver(Protocol):
    """A receiver of traces, such as `otlp.Receiver`."""

    def send(self, traces: list[Trace]) -> str:
        """Send traces; return the receiver's complaint."""


class TraceExport:
    """Sends traces of the tasks of a campaign, and of all below it, that are done or have failed.

    cursor: the tasks sent. Failed tasks are apart there, under the negative id of their campaign,
    since they can be retried and become done. save: called when all tasks of the cursor were sent.
    on_complaint: called with the receiver's complaint. Raise `UnknownCampaign` or `Conflict`.

    When the receiver fails, traces that were read and not sent are kept; the next call sends them
    first.
    """

    def __init__(
        self,
        database: Queries,
        path: str,
        cursor: Cursor,
        receiver: TraceReceiver,
        *,
        save: Callable[[], object] = lambda: None,
        on_complaint: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._database = database
        self._path = check_path(path)
        self._cursor = cursor
        self._receiver = receiver
        self._save = save
        self._on_complaint = on_complaint
        self._created: dict[str, datetime] = {}
        self._nodes: dict[str, Status] = {}
        self._failed: dict[int, int] = {}
        self._rested_at = 0.0
        self._waiting: list[Trace] = []
        self.traces = self.spans = 0
        # The prefix keeps cursors of results and of traces from being taken for each other.
        cursor.begin(f"traces of {self._path}", self._created_at(self._path))

    def once(self) -> None:
        """Send traces of tasks that have ended; raise the errors of the receiver."""
        self._settle()
        nodes = ((count.campaign_id, count.path) for count in self._counts())
        self._add(look(self._database, nodes, self._cursor, self._settle))
        self._look_for_failed()
        self._settle()

    def follow(self) -> None:
        """Send traces of tasks as they end, until no task is unfinished; raise as `once`."""
        self._settle()
        self._add(follow(self._database, self._counts, self._cursor, self._between))
        self._failed.clear()
        self._look_for_failed()
        self._settle()

    def _between(self) -> None:
        if time.monotonic() >= self._rested_at:
            began = time.monotonic()
            self._look_for_failed()
            now = time.monotonic()
            self._rested_at = now + REST * (now - began)
        self._settle()

    def _counts(self) -> list[Status]:
        found = [
            Status(**row) for row in self._database.rows("counts", path=self._path, depth=None)
        ]
        self._nodes = {node.path: node for node in found}
        return found

    def _look_for_failed(self) -> None:
        """Read failed tasks of campaigns whose number of failed tasks has changed."""
        for node in self._nodes.values():
            if node.failed == self._failed.get(node.campaign_id, 0):
                continue
            sent = self._cursor.given(-node.campaign_id)
            sent.settle()
            for row in pages(self._database, "failures", campaign=node.campaign_id):
                if row["task_id"] not in sent:
                    self._add([{"campaign": node.path, **row}])
                    sent.add(row["task_id"])
                    if sum(len(trace.spans) for trace in self._waiting) >= MOST_SPANS:
                        self._settle()
            self._failed[node.campaign_id] = node.failed

    def _add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            if "withdrawn" in row:
                continue  # the trace of the next attempt has this one too
            path, task = row["campaign"], row["task_id"]
            if row["attempt"] == 1:
                attempts = [_only(row)]
            else:
                campaign = self._nodes[path].campaign_id
                found = self._database.rows("attempts", campaign=campaign, task=task)
                attempts = [Attempt(**row) for row in found]
            if attempts:  # an operator may remove it meanwhile
                created_at = self._created_at(path)
                self._waiting.append(trace_of(path, created_at, task, row["key"], attempts))

    def _settle(self) -> None:
        """Send all waiting traces, then save: all tasks of the cursor were sent."""
        while self._waiting:
            count, spans = 0, 0
            while count < len(self._waiting) and spans < MOST_SPANS:
                spans += len(self._waiting[count].spans)
                count += 1
            if complaint := self._receiver.send(self._waiting[:count]):
                self._on_complaint(complaint)
            del self._waiting[:count]
            self.traces, self.spans = self.traces + count, self.spans + spans
        self._save()

    def _created_at(self, path: str) -> datetime:
        if path not in self._created:
            row = self._database.row("campaign", path=path)
            if row is None:
                raise unknown_campaign(self._database, path)
            self._created[path] = row["created_at"]
        return self._created[path]


def _only(row: Row) -> Attempt:
    """Return the only attempt of a task, from a row of its results or failures."""
    return Attempt(
        attempt=1,
        outcome=row.get("outcome", "done"),
        claimed_at=row["claimed_at"],
        ended_at=row["ended_at"],
        agent=row["agent"],
        host=row["host"],
        site=row["site"],
        exit_code=row.get("exit_code"),
        error_class=row.get("error_class"),
        error=row.get("error"),
        phases=row["phases"],
        result=None,
        tail=None,
        recipe=row.get("recipe"),
    )
