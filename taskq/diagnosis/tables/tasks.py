"""Tasks, their events, and failures by cause and by class: columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from taskq.diagnosis.blame import FailureVerdict
from taskq.diagnosis.history import Event
from taskq.model.columns import Column
from taskq.model.shares import share_text
from taskq.model.views import Failure, FailureCause, TaskView
from taskq.model.words import as_json, instant, progress

EVENTS: Final[tuple[Column[Event], ...]] = (
    Column("at", lambda event: instant(event.at) or "now"),
    Column("event", lambda event: event.what),
    Column("attempt"),
    Column("recipe", sparse=True, yields=3),
    Column("host", sparse=True),
    Column("site", sparse=True, yields=1),
    Column("detail", gives_way=True),
    Column("agent", sparse=True, yields=2),
)

CLASSES: Final[tuple[Column[FailureVerdict], ...]] = (
    Column("class", lambda verdict: verdict.error_class or "(none)"),
    Column("attempts", kind="count"),
    Column("of all", lambda verdict: verdict.share.share, "share", yields=1),
    Column("tasks", kind="count", yields=1),
    Column("hosts", kind="count", yields=1),
    Column("sites", kind="count", yields=1),
    Column("since", lambda verdict: verdict.since, sparse=True),
    Column("fault", lambda verdict: verdict.fault),
    Column(
        "why", lambda verdict: "; ".join([verdict.why, *map(str, verdict.bans)]), gives_way=True
    ),
)

FAILURES: Final[tuple[Column[Failure], ...]] = (
    Column("key"),
    Column("class", lambda failure: failure.error_class),
    Column("host"),
    Column("error", gives_way=True),
    Column("attempt", yields=1),
    Column("ended", lambda failure: failure.ended_at, yields=1),
)


def columns(last: Callable[[TaskView], Mapping[str, Any] | None]) -> list[Column[TaskView]]:
    """Return the columns of tasks. last: returns the row of a task's last attempt, if it had one.

    Host and since belong to the running attempt, or, with class, to the end of the last one.
    """

    def ended(name: str) -> Callable[[TaskView], object]:
        return lambda task: (last(task) or {}).get(name)

    return [
        Column("key"),
        Column("status"),
        Column(
            "progress", lambda task: progress(task.progress, task.progress_note), gives_way=True
        ),
        Column("attempt", kind="count"),
        Column("failures", kind="count"),
        Column("losses", kind="count"),
        Column("priority"),
        Column("since", lambda task: task.claimed_at or ended("ended_at")(task)),
        Column("due", lambda task: task.due_at if task.status == "delayed" else None),
        Column("host", lambda task: task.host or ended("host")(task)),
        Column("in use", lambda task: share_text(task.share), gives_way=True, sparse=True),
        Column("class", ended("error_class")),
        Column("payload", lambda task: as_json(task.payload), gives_way=True),
    ]


def _hosts(cause: FailureCause) -> str:
    more = cause.hosts - len(cause.some_hosts)
    named = (f"{host} {attempts:,}" for host, attempts in cause.some_hosts.items())
    return ", ".join(named) + (f" and {more:,} more" if more else "")


CAUSES: Final[tuple[Column[FailureCause], ...]] = (
    Column("class", lambda cause: cause.error_class or "(none)"),
    Column("attempts", kind="count"),
    Column("tasks", kind="count", yields=4),
    Column("example", lambda cause: cause.example_key, yields=3),
    Column("error", lambda cause: cause.example_error, gives_way=True),
    Column("last line of output", lambda cause: cause.example_line, gives_way=True),
    Column("hosts", _hosts, gives_way=True, yields=1),
    Column("last", lambda cause: cause.last_at, yields=2),
)
