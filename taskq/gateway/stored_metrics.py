"""Metrics that only the database knows: of a token's campaigns, and of their owners.

Their rows are limited in number, and an answer serves all requests of some seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Generic, TypeVar

from prometheus_client.core import GaugeMetricFamily, Metric

from taskq.db.connections import Row
from taskq.diagnosis.campaign_tree import grow
from taskq.diagnosis.tree_readings import RUNS, STATEMENTS, TreeReadings
from taskq.gateway.http.errors import Busy
from taskq.gateway.statement_pool import StatementPool
from taskq.model.errors import NotFound, TaskqError
from taskq.model.seed import STATUSES

T = TypeVar("T")

#: Most rows, each with series of its own: those with the most unfinished tasks, then the newest.
MOST: Final = 200
#: Seconds for which an answer serves all requests for the same campaigns.
FRESH_S: Final = 5.0
_MOST_SCOPES: Final = 64
#: Paths of a token for which the ends of campaigns are read; each reads its whole subtree.
_MOST_ENDS: Final = 8
#: Seconds for which metrics wait for what the database knows.
_ANSWER_S: Final = 2.0
_TROUBLES: Final = {
    "taskq_agents_held": "Silent agents whose tasks are held, as in an outage",
    "taskq_campaigns_paused": "Campaigns that paused themselves, since nearly everything failed",
}
_GAUGES: Final = {
    "taskq_campaign_paused": "1: the campaign or one above it is not open; 0: it is open",
    "taskq_campaign_failed_attempts": "Failed attempts of existing tasks",
    "taskq_campaign_lost_attempts": "Attempts of existing tasks that were lost with their agents",
}


@dataclass(slots=True)
class StoredNumbers:
    """Numbers that only the database knows.

    troubles: the numbers of silent agents whose tasks are held, and of campaigns that paused
    themselves; empty if the database did not answer. campaigns, owners: the rows for their metrics;
    None if the database did not answer. ends: in how many seconds campaigns end, with all below.
    """

    troubles: Sequence[int] = ()
    campaigns: Sequence[Row] | None = None
    owners: Sequence[Row] | None = None
    ends: Mapping[str, float] = field(default_factory=dict)

    def families(self) -> Iterator[Metric]:
        """Yield the metrics of what the database answered."""
        for (name, title), number in zip(_TROUBLES.items(), self.troubles, strict=False):
            yield GaugeMetricFamily(name, title, number)
        if self.campaigns is not None:
            yield from of_campaigns(self.campaigns, self.ends)
        if self.owners is not None:
            yield from of_owners(self.owners)


class MetricReader:
    """Reads the numbers that only the database knows."""

    def __init__(self, statements: StatementPool) -> None:
        self._statements = statements
        self._campaigns = _Kept(partial(self._rows, "campaign_metrics"))
        self._owners = _Kept(partial(self._rows, "owner_metrics"))
        self._ends = _Kept(self._read_ends)

    async def read(self, paths: tuple[str, ...]) -> StoredNumbers:
        """Return the numbers for some campaigns; fewer if the database does not answer soon."""
        found = StoredNumbers()
        with suppress(TaskqError, Busy, asyncio.TimeoutError):
            (row,) = await asyncio.wait_for(self._read_troubles(paths), _ANSWER_S)
            found.troubles = (row["held"], row["paused"])
            found.campaigns = await asyncio.wait_for(self._campaigns.get(paths), _ANSWER_S)
            found.owners = await asyncio.wait_for(self._owners.get(paths), _ANSWER_S)
            found.ends = await asyncio.wait_for(self._ends.get(paths), _ANSWER_S)
        return found

    async def _read_troubles(self, paths: tuple[str, ...]) -> list[Row]:
        if "/" in paths:
            return await self._statements.rows("troubles")
        return await self._statements.rows("troubles_of", paths=list(paths))

    async def _rows(self, name: str, paths: tuple[str, ...]) -> list[Row]:
        return await self._statements.rows(name, paths=list(paths), limit=MOST)

    async def _read_ends(self, paths: tuple[str, ...]) -> dict[str, float]:
        """Return in how many seconds campaigns end, for those whose end is known."""
        found: dict[str, float] = {}
        for path in paths[:_MOST_ENDS]:
            read = TreeReadings(path, scope=path)
            with suppress(NotFound):
                for name in ("counts", "sharing", "kinds", "paces", "standstills", "dues"):
                    rows = await self._statements.rows(STATEMENTS[name], **read.values(name))
                    read.take(name, rows)
                runs = {}
                for campaign in read.running():
                    asked = {"campaign": campaign, "most": RUNS}
                    (runs[campaign],) = await self._statements.rows("usual_run", **asked)
                read.take_runs(runs)
                tree = await asyncio.to_thread(grow, read, time.monotonic())
                for node in tree.nodes.values():
                    if node.status.unfinished and (ends_s := node.forecast.eta_s) is not None:
                        found[node.status.path] = ends_s
        return found


class _Kept(Generic[T]):
    """The latest results of a reading, by the paths of tokens. One reading at a time."""

    def __init__(self, read: Callable[[tuple[str, ...]], Awaitable[T]]) -> None:
        self._read = read
        self._turn = asyncio.Lock()
        self._known: dict[tuple[str, ...], tuple[float, T]] = {}

    async def get(self, paths: tuple[str, ...]) -> T:
        """Return the result for the campaigns of some paths; raise as the reading does."""
        async with self._turn:
            known = self._known.get(paths)
            if known is not None and time.monotonic() - known[0] < FRESH_S:
                return known[1]
            found = await self._read(paths)
            if len(self._known) >= _MOST_SCOPES:
                self._known.clear()
            self._known[paths] = (time.monotonic(), found)
            return found


def of_campaigns(rows: Sequence[Row], ends: Mapping[str, float]) -> Iterator[Metric]:
    """Yield the metrics of campaigns."""
    number = rows[0]["campaigns"] if rows else 0
    title = f"Campaigns with unfinished tasks; {MOST} campaigns have series of their own"
    yield GaugeMetricFamily("taskq_campaigns", title, number)
    tasks = GaugeMetricFamily(
        "taskq_campaign_tasks", "Tasks of a campaign, its own", labels=["campaign", "status"]
    )
    gauges = {
        name: GaugeMetricFamily(name, title, labels=["campaign"]) for name, title in _GAUGES.items()
    }
    left = GaugeMetricFamily(
        "taskq_campaign_eta_seconds",
        "Until all tasks of a campaign and below that can end have ended; absent while unknown",
        labels=["campaign"],
    )
    for row in rows:
        if row["path"] in ends:
            left.add_metric([row["path"]], ends[row["path"]])
        for status in STATUSES:
            tasks.add_metric([row["path"], status], row[status])
        values = (row["state"] != "open", row["failures"], row["losses"])
        for gauge, value in zip(gauges.values(), values, strict=True):
            gauge.add_metric([row["path"]], value)
    yield from (tasks, left)
    yield from gauges.values()


def of_owners(rows: Sequence[Row]) -> Iterator[Metric]:
    """Yield the metrics of owners; a quota has series only for what it limits."""
    number = rows[0]["owners"] if rows else 0
    title = f"Owners of campaigns, of which {MOST} have series of their own"
    yield GaugeMetricFamily("taskq_owners", title, number)
    tasks = GaugeMetricFamily(
        "taskq_owner_tasks", "Tasks of an owner's campaigns", labels=["owner", "status"]
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
