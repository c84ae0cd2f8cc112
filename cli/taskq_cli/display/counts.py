"""The counts of a campaign, as several commands show them."""

from __future__ import annotations

from typing import Any

from taskq.model.seed import STATUSES
from taskq.model.views import Status
from taskq_cli.display.output import as_record


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


def told_state(status: Status) -> str:
    """Return the state for people: of an open campaign whose tasks have all ended, `finished`."""
    return "finished" if status.state == "open" and status.finished else status.state


def status_record(status: Status) -> dict[str, Any]:
    """Return a status as a record for JSON, with whether all tasks have ended."""
    return as_record(status) | {"finished": status.finished}
