"""Metrics of campaigns for Prometheus: counts of their tasks, and whether they are open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from taskq.db.connections import Row
from taskq.gateway.metric_rows import MOST
from taskq.model.seed import STATUSES

_GAUGES: Final = {
    "taskq_campaign_paused": "1: the campaign or one above it is not open; 0: it is open",
    "taskq_campaign_failed_attempts": "Attempts that failed, of tasks that are there",
    "taskq_campaign_lost_attempts": "Attempts lost with their agents, of tasks that are there",
}


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
        for status in STATUSES:
            tasks.add_metric([row["path"], status], row[status])
        values = (row["state"] != "open", row["failures"], row["losses"])
        for gauge, value in zip(gauges.values(), values, strict=True):
            gauge.add_metric([row["path"]], value)
    yield tasks
    yield from gauges.values()
