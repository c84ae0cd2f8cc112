"""Campaigns that were removed: columns."""

from __future__ import annotations

from typing import Final

from taskq.model.columns import Column
from taskq.model.removed import RemovedCampaign
from taskq.model.words import instant

REMOVED: Final[list[Column[RemovedCampaign]]] = [
    Column("removed", lambda gone: instant(gone.removed_at)),
    Column("by", lambda gone: gone.removed_by),
    Column("campaign", lambda gone: gone.path, gives_way=True),
    Column("campaigns", kind="count"),
    Column("done", kind="count"),
    Column("failed", kind="count"),
    Column("cancelled", kind="count"),
    Column("archive", lambda gone: gone.archive or "none"),
]
