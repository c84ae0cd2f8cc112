"""Metrics for Prometheus: of the gateway itself, of a token's campaigns and of owners.

The gateway's own are plain numbers, which cost the hot path next to nothing, and become metrics
when they are read. Rows of campaigns and owners are read from the database, limited in number.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from taskq.db.connections import Row
from taskq.diagnosis.campaign_tree import STATEMENTS, TreeReadings, grow
from taskq.gateway.errors import Busy
from taskq.gateway.pace import StatementPool
from taskq.model.counters import counted, counter
from taskq.model.errors import NotFound, TaskqError
from taskq.model.seed import STATUSES

if TYPE_CHECKING:
    from taskq.front.pool import Pool

T = TypeVar("T")

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
#: Upper bounds of the latency histogram, in seconds.
BUCKETS: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_TROUBLES: Final = {
    "taskq_agents_held": "Silent agents whose tasks are held, as in an outage",
    "taskq_campaigns_paused": "Campaigns that paused themselves, since nearly everything failed",
}


@dataclass(slots=True)
class Metrics:
    """The numbers of one gateway. waiting: claims kept back until there is something to claim.

    heard, throttled: by session, the time of the last heartbeat, and of the last heartbeat that
    reported a throttled agent.
    """

    exchanges: int = counter("Exchanges taken in")
    reports: int = counter("Reports taken in")
    tasks: int = counter("Tasks handed out")
    beats: int = counter("Heartbeats taken in")
    opened: int = counter("Sessions opened")
    managed: int = counter("Requests of managers taken in")
    abandoned: int = counter("Requests whose client was gone before the answer")
    slow: int = counter(
        "Connections cut: the client was too slow, or silent, or there were too many"
    )
    waiting: int = 0
    heard: dict[int, float] = field(default_factory=dict)
    throttled: dict[int, float] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)
    _seconds: float = 0.0
    _buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))

    def took(self, seconds: float) -> None:
        """Count an exchange that was not kept back, and its duration."""
        self._seconds += seconds
        self._buckets[bisect_left(BUCKETS, seconds)] += 1

    def note_heartbeat(self, session: int, *, throttled: bool) -> None:
        """Note a heartbeat of a session, and whether it reports a throttled agent."""
        self.beats += 1
        self.heard[session] = at = time.monotonic()
        if throttled:
            self.throttled[session] = at
        else:
            self.throttled.pop(session, None)

    def forget(self, session: int) -> None:
        """Forget a session that has ended."""
        self.heard.pop(session, None)
        self.throttled.pop(session, None)

    def forget_silent(self, before: float) -> None:
        """Forget the sessions not heard here since then."""
        self.heard = {session: at for session, at in self.heard.items() if at >= before}
        self.throttled = {session: at for session, at in self.throttled.items() if at >= before}

    def families(self, connections: int, queued: int, pool: Pool | None) -> Iterator[Metric]:
        """Yield all metrics of this gateway."""
        if pool is not None:
            yield from _front_families(pool)
        for name, title, number in counted(self):
            yield CounterMetricFamily(f"taskq_gateway_{name}", title, number)
        gauges = {
            "connections": ("Clients connected", connections),
            "queued": ("Exchanges that wait for a statement", queued),
            "waiting": ("Claims kept back until there is something to claim", self.waiting),
            "agents_slowed": (
                "Agents throttled, since everything fails on them",
                len(self.throttled),
            ),
        }
        for name, (title, value) in gauges.items():
            yield GaugeMetricFamily(f"taskq_gateway_{name}", title, value)
        failures = CounterMetricFamily(
            "taskq_gateway_failures", "Requests answered with an error", labels=["code"]
        )
        for code, count in self.failures.items():
            failures.add_metric([code], count)
        yield failures
        total, buckets = 0, []
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), self._buckets, strict=True):
            total += count
            buckets.append((bound, total))
        yield HistogramMetricFamily(
            "taskq_gateway_exchange_seconds",
            "From the request to the answer of exchanges that were not kept back",
            buckets,
            self._seconds,
        )


def _front_families(pool: Pool) -> Iterator[Metric]:
    for name, title, number in counted(pool.counters):
        yield CounterMetricFamily(f"taskq_front_{name}", title, number)
    yield GaugeMetricFamily("taskq_front_depth", "Entries in the lists used here", pool.depth)
    in_use = "1: the front works; 0: it is avoided"
    yield GaugeMetricFamily("taskq_front_in_use", in_use, pool.breaker.closed)


class _Once(Collector):
    """A collector of given metrics, for one answer."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


def text(
    metrics: Metrics,
    *,
    connections: int,
    queued: int,
    pool: Pool | None,
    stored: StoredNumbers,
) -> bytes:
    """Return the numbers in Prometheus' text format.

    pool: the front's; None if there is no front.
    """
    families = list(metrics.families(connections, queued, pool))
    families += [
        GaugeMetricFamily(name, title, number)
        for (name, title), number in zip(_TROUBLES.items(), stored.troubles, strict=False)
    ]
    if stored.campaigns is not None:
        families += of_campaigns(stored.campaigns, stored.ends)
    if stored.owners is not None:
        families += of_owners(stored.owners)
    return generate_latest(_Once(families))


#: Most rows, each with series of its own: those with the most unfinished tasks.
MOST: Final = 200
#: Seconds for which an answer serves all requests for the same campaigns.
FRESH_S: Final = 5.0
_MOST_SCOPES: Final = 64
#: Paths of a token for which the ends of campaigns are read; each reads its whole subtree.
_MOST_ENDS: Final = 8
#: Seconds for which metrics wait for what the database knows.
_ANSWER_S: Final = 2.0


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
            (row,) = await asyncio.wait_for(self._statements.rows("troubles"), _ANSWER_S)
            found.troubles = (row["held"], row["paused"])
            found.campaigns = await asyncio.wait_for(self._campaigns.get(paths), _ANSWER_S)
            found.owners = await asyncio.wait_for(self._owners.get(paths), _ANSWER_S)
            found.ends = await asyncio.wait_for(self._ends.get(paths), _ANSWER_S)
        return found

    async def _rows(self, name: str, paths: tuple[str, ...]) -> list[Row]:
        return await self._statements.rows(name, paths=list(paths), limit=MOST)

    async def _read_ends(self, paths: tuple[str, ...]) -> dict[str, float]:
        """Return in how many seconds campaigns end, for those whose end is known."""
        found: dict[str, float] = {}
        for path in paths[:_MOST_ENDS]:
            read = TreeReadings(path)
            with suppress(NotFound):
                for name in ("counts", "paces", "standstills", "dues"):
                    rows = await self._statements.rows(STATEMENTS[name], **read.values(name))
                    read.take(name, rows)
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


_GAUGES: Final = {
    "taskq_campaign_paused": "1: the campaign or one above it is not open; 0: it is open",
    "taskq_campaign_failed_attempts": "Failed attempts of existing tasks",
    "taskq_campaign_lost_attempts": "Attempts of existing tasks that were lost with their agents",
}


def of_campaigns(rows: Sequence[Row], ends: Mapping[str, float]) -> Iterator[Metric]:
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
