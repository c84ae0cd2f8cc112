"""Metrics of campaigns for Prometheus: of those that a manager's token is for, so many at most."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from taskq.db.connections import Row
from taskq.gateway.db_pool import StatementPool

#: Campaigns with series of their own: those with most unfinished tasks.
MOST: Final = 200
#: Seconds for which an answer serves all that ask for the same campaigns.
FRESH_S: Final = 5.0
_MOST_SCOPES: Final = 64
_STATUSES: Final = ("waiting", "delayed", "working", "done", "failed", "cancelled")
_GAUGES: Final = {
    "taskq_campaign_paused": "1: the campaign or one above it is not open; 0: it is open",
    "taskq_campaign_failed_attempts": "Attempts that failed, of tasks that are there",
    "taskq_campaign_lost_attempts": "Attempts lost with their agents, of tasks that are there",
}


class CampaignMetrics:
    """The latest counts of campaigns, by the paths of tokens. One statement at a time."""

    def __init__(self, statements: StatementPool) -> None:
        self._statements = statements
        self._turn = asyncio.Lock()
        self._known: dict[tuple[str, ...], tuple[float, list[Row]]] = {}

    async def rows(self, paths: tuple[str, ...]) -> list[Row]:
        """Return the counts of the campaigns at and below some paths; raise as a statement does."""
        async with self._turn:
            at, rows = self._known.get(paths, (0.0, []))
            if time.monotonic() - at < FRESH_S and at:
                return rows
            rows = await self._statements.rows("campaign_metrics", paths=list(paths), limit=MOST)
            if len(self._known) >= _MOST_SCOPES:
                self._known.clear()
            self._known[paths] = (time.monotonic(), rows)
            return rows


def families(rows: Sequence[Row]) -> Iterator[Metric]:
    """Yield the metrics of campaigns."""
    number = rows[0]["campaigns"] if rows else 0
    title = f"Campaigns with tasks, of which {MOST} have series of their own"
    yield GaugeMetricFamily("taskq_campaigns", title, number)
    tasks = GaugeMetricFamily(
        "taskq_campaign_tasks", "Tasks of a campaign, its own", labels=["campaign", "status"]
    )
    gauges = {
        name: GaugeMetricFamily(name, title, labels=["campaign"]) for name, title in _GAUGES.items()
    }
    for row in rows:
        for status in _STATUSES:
            tasks.add_metric([row["path"], status], row[status])
        values = (row["state"] != "open", row["failures"], row["losses"])
        for gauge, value in zip(gauges.values(), values, strict=True):
            gauge.add_metric([row["path"]], value)
    yield tasks
    yield from gauges.values()
