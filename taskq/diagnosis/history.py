"""History of a task: its events in order, from its attempts and its row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from taskq.model.run_times import ran_s
from taskq.model.shares import share_text
from taskq.model.views import Attempt, TaskView
from taskq.model.words import beginning, duration, given_up, phases, progress

_SHOWN_CHARS: Final = 200
_USED: Final = ("cpu_s", "peak_bytes", "gpu_peak_bytes")


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a task. at: None for the state now.

    what: claimed, an outcome of an attempt, or a status. attempt: None if it is about no attempt.
    recipe: by which an attempt ran that ended; None if nobody has reported it.
    """

    at: datetime | None
    what: str
    attempt: int | None
    agent: str | None
    host: str | None
    site: str | None
    detail: str
    recipe: int | None = None


def history(task: TaskView, attempts: Iterable[Attempt]) -> list[Event]:
    """Return the events of a task, oldest first; the last is its state now.

    The database records the claim and end of each ended attempt, and the claim of a running one,
    but not when a waiting task was seeded, retried or cancelled.
    """
    events: list[Event] = []
    before: Attempt | None = None
    for attempt in attempts:
        events += _of_attempt(attempt, before)
        before = attempt
    if task.status == "working" and task.claimed_at is not None:
        where = "leased ahead in Redis" if task.host is None else "it runs"
        where = " with ".join(filter(None, (where, share_text(task.share))))
        far = progress(task.progress, task.progress_note)
        text = ": ".join(filter(None, (where, far)))
        again = _again(task.claimed_at, before)
        events.append(_now(task, ", ".join(filter(None, (again, text))), at=task.claimed_at))
    elif task.status == "delayed" and task.due_at is not None:
        events.append(_now(task, f"until {task.due_at:%Y-%m-%dT%H:%M:%SZ}"))
    elif task.status == "failed":
        events.append(_now(task, given_up(task.failures, task.losses)))
    else:
        events.append(_now(task, ""))
    return events


def _again(claimed_at: datetime, before: Attempt | None) -> str:
    """Return how long after an unsuccessful attempt the next began, in words."""
    if before is None or before.outcome == "done" or claimed_at < before.ended_at:
        return ""
    return f"tried again after {duration((claimed_at - before.ended_at).total_seconds())}"


def _of_attempt(attempt: Attempt, before: Attempt | None) -> Iterator[Event]:
    place = (attempt.attempt, attempt.agent, attempt.host, attempt.site)
    took_s = ran_s(attempt.phases, attempt.claimed_at, attempt.ended_at)
    why = beginning(": ".join(filter(None, (attempt.error_class, attempt.error))), _SHOWN_CHARS)
    yield Event(attempt.claimed_at, "claimed", *place, _again(attempt.claimed_at, before))
    used = {name: it for name, it in (attempt.phases or {}).items() if name in _USED}
    detail = ", ".join(filter(None, (f"after {duration(took_s)}", why, phases(used))))
    yield Event(attempt.ended_at, attempt.outcome, *place, detail, attempt.recipe)


def _now(task: TaskView, detail: str, at: datetime | None = None) -> Event:
    attempt = task.attempt if task.status == "working" else None
    return Event(at, task.status, attempt, None, task.host, None, detail)
