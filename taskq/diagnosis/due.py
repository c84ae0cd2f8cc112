"""When the last delayed task of a campaign is due: the campaign does not end before."""

from __future__ import annotations

from taskq.db.access import Queries
from taskq.model.views import Status


def last_due_s(queries: Queries, status: Status) -> float | None:
    """Return a lower bound of the seconds until the last delayed task here or below is due.

    status: of the campaign with all below it. None if no task is delayed, or if it is unknown: many
    delayed tasks of other campaigns come later, or the gateway is of an older release.
    """
    if not status.delayed:
        return None
    row = queries.row("explain_due", path=status.path) or {}
    found: float | None = row.get("last_due_s")
    return found
