"""Pilots and their jobs: columns."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from taskq.model.columns import Column
from taskq.model.pilot_views import PilotJob, PilotView
from taskq.model.words import duration


def about_loop(pilot: PilotView) -> str:
    """Return when a loop last looked at a pilot, and where."""
    if pilot.looked_ago_s is None:
        return "none yet"
    return f"{duration(pilot.looked_ago_s)} ago on {pilot.looked_from}"


PILOTS: Final[tuple[Column[PilotView], ...]] = (
    Column("name"),
    Column("driver"),
    Column("campaign", lambda pilot: pilot.path),
    Column("status"),
    Column("queued", lambda pilot: pilot.queued + pilot.submitting, "count"),
    Column("starting", kind="count", means="Jobs that run, with an agent that is not yet heard."),
    Column("serving", kind="count"),
    Column("most", lambda pilot: pilot.settings.get("max_jobs"), "count"),
    Column("loop", about_loop),
    Column("trouble", lambda pilot: pilot.paused_why or pilot.trouble, gives_way=True),
)


def _between(since: datetime | None, until: datetime | None) -> float | None:
    """Return the seconds between two instants; None if one is missing."""
    if since is None or until is None:
        return None
    return max(0.0, (until - since).total_seconds())


JOBS: Final[tuple[Column[PilotJob], ...]] = (
    Column("job", lambda job: job.number),
    Column("status", lambda job: job.outcome or job.status),
    Column("id", lambda job: job.native_id),
    Column("host", lambda job: job.host or job.place),
    Column("began", lambda job: job.began_at),
    Column("started", lambda job: _between(job.began_at, job.started_at), "seconds"),
    Column("heard", lambda job: _between(job.began_at, job.heard_at), "seconds"),
    Column("lasted", lambda job: _between(job.started_at, job.ended_at), "seconds"),
    Column("code", lambda job: job.exit_code),
    Column("why", lambda job: job.left_why or job.why, gives_way=True),
)
