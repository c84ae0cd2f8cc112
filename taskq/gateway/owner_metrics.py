"""Metrics of owners for Prometheus: what their campaigns have, and their quotas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric

from taskq.db.connections import Row
from taskq.gateway.metric_rows import MOST


def families(rows: Sequence[Row]) -> Iterator[Metric]:
    """Yield the metrics of owners; a quota has series only for what it limits."""
    number = rows[0]["owners"] if rows else 0
    title = f"Owners of campaigns, of which {MOST} have series of their own"
    yield GaugeMetricFamily("taskq_owners", title, number)
    tasks = GaugeMetricFamily(
        "taskq_owner_tasks", "Tasks of all campaigns of an owner", labels=["owner", "status"]
    )
    stored = GaugeMetricFamily(
        "taskq_owner_stored_bytes", "Bytes of inputs and output files", labels=["owner"]
    )
    most_tasks = GaugeMetricFamily(
        "taskq_owner_quota_tasks", "Tasks that a quota allows", labels=["owner", "status"]
    )
    most_stored = GaugeMetricFamily(
        "taskq_owner_quota_bytes", "Bytes that a quota allows", labels=["owner"]
    )
    for row in rows:
        owner = row["owner"]
        for status, most in (("waiting", "max_waiting"), ("working", "max_running")):
            tasks.add_metric([owner, status], row[status])
            if row[most] is not None:
                most_tasks.add_metric([owner, status], row[most])
        stored.add_metric([owner], row["bytes"])
        if row["max_bytes"] is not None:
            most_stored.add_metric([owner], row["max_bytes"])
    yield from (tasks, stored, most_tasks, most_stored)
