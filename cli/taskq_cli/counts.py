"""The counts of a campaign, as several commands show them."""

from __future__ import annotations

from typing import Final

from taskq.views import Status

STATUSES: Final = ("waiting", "delayed", "working", "done", "failed", "cancelled")


def counts(status: Status) -> dict[str, int]:
    """Return the number of tasks by status."""
    return {name: getattr(status, name) for name in STATUSES}


def final(status: Status) -> int:
    """Return the number of tasks that will not change any more."""
    return status.total - status.unfinished


def percent_final(status: Status) -> str:
    """Return how much of a campaign is final; 100 only if all is, nothing if it has no tasks."""
    if not status.total:
        return ""
    return f"{final(status) * 1000 // status.total / 10:.1f} %"
