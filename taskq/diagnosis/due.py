"""When the last delayed task of a campaign is due: what is left does not end before."""

from __future__ import annotations

from taskq.db.access import Queries
from taskq.model.views import Status


def last_due_s(queries: Queries, status: Status) -> float | None:
    """Return in how many seconds the last delayed task here or below is due, at least.

    status: of the campaign with all below it. None: none is delayed, or it is not known, since many
    of other campaigns come later or the gateway is of an older release.
    """
    if not status.delayed:
        return None
    row = queries.row("explain_due", path=status.path) or {}
    found: float | None = row.get("last_due_s")
    return found
