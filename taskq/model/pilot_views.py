"""Pilots and their jobs as the queue returns them, as frozen dataclasses; see `views`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class PilotView:
    """A pilot. settings: see `pilots.settings`. paused_why: why it paused itself, if it did.

    failures: how many submissions failed, or jobs died before their agents were heard, one after
    the other; failed_ago_s, trouble: the last such failure. retry_in_s: how long submissions rest
    because of them. looked_ago_s, looked_from: when, and on which host, a loop last acted for it;
    None means never. Live jobs: submitting, queued, starting (running, with an agent not yet
    heard), serving.
    """

    pilot_id: int
    name: str
    key: str
    path: str
    driver: str
    settings: dict[str, Any]
    status: str
    paused_why: str | None
    failures: int
    failed_ago_s: float | None
    trouble: str | None
    retry_in_s: float | None
    looked_ago_s: float | None
    looked_from: str | None
    created_at: datetime
    submitting: int
    queued: int
    starting: int
    serving: int

    @property
    def live(self) -> int:
        """Jobs that have not ended."""
        return self.submitting + self.queued + self.starting + self.serving


@dataclass(frozen=True, slots=True)
class PilotJob:
    """A job of a pilot. name: in the batch system, and of its agent.

    status: submitting, queued, running or ended. began_at, submitted_at, started_at, ended_at: when
    the loop wrote it down, and saw each status. heard_at: when its agent opened a session; at_work:
    whether a session is open; left_why: why the agent left; attempts: how many ran there, once that
    is known. outcome: served; died (before its agent was heard); refused (by the batch system);
    cancelled (before its agent was heard); vanished (the
    batch system no longer knows it, and nobody saw its end); None if it has not ended. why: the
    batch system's words. tail: the end of the output of a job whose agent was never heard.
    missing_polls: how many of the batch system's last answers lacked it, the first missing_s ago.
    """

    number: int
    name: str
    status: str
    native_id: str | None
    place: str | None
    began_at: datetime
    submitted_at: datetime | None
    started_at: datetime | None
    heard_at: datetime | None
    cancelled_at: datetime | None
    ended_at: datetime | None
    age_s: float
    running_s: float | None
    heard_ago_s: float | None
    outcome: str | None
    why: str | None
    exit_code: int | None
    tail: str | None
    at_work: bool
    host: str | None
    left_why: str | None
    attempts: int | None
    missing_polls: int
    missing_s: float | None
