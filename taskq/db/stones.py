"""Campaigns that were removed, as the database knows them: `Client.removed`, and errors."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from taskq.db.access import Queries
from taskq.model.errors import TaskqError, UnknownCampaign
from taskq.model.removed import RemovedCampaign
from taskq.model.seed import check_path

#: Campaigns of an answer, as many as a gateway gives.
ALL_REMOVED: Final = 20_000


def removed(database: Queries, path: str, limit: int = ALL_REMOVED) -> list[RemovedCampaign]:
    """Return the campaigns at and below a path that were removed, the latest first."""
    rows = database.rows("removed_campaigns", path=check_path(path), below=True, most=limit)
    return [RemovedCampaign(**row) for row in rows]


def unknown_campaign(database: Queries, path: str) -> UnknownCampaign:
    """Return the error for a path that no campaign has; it says if one was removed there."""
    with suppress(TaskqError):  # without the right to read it stays as it is
        row = database.row("removed_campaigns", path=path, below=False, most=1)
        if row is not None:
            return UnknownCampaign(path, RemovedCampaign(**row))
    return UnknownCampaign(path)
