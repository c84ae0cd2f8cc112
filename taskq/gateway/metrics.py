"""Metrics of a gateway for Prometheus.

They are plain numbers, which cost the hot path next to nothing, and become metrics when they are
read. `stored_metrics` has those of campaigns and owners.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from taskq.model.counters import counted, counter

if TYPE_CHECKING:
    from taskq.front.pool import Pool

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
#: Upper bounds of the latency histogram, in seconds.
BUCKETS: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(slots=True)
class Metrics:
    """The numbers of one gateway.

    waiting: claims kept back until there is something to claim. awaiting: requests of submitters
    kept back until a task has ended.
    certificate_ends: when the certificate in use expires, in seconds since the epoch. heard,
    throttled: by session, the time of the last heartbeat, and of the last heartbeat that reported a
    throttled agent.
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
    awaiting: int = 0
    certificate_ends: float | None = None
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
            "awaiting": ("Submitters' requests kept back until a task has ended", self.awaiting),
            "agents_slowed": (
                "Agents throttled, since everything fails on them",
                len(self.throttled),
            ),
        }
        for name, (title, value) in gauges.items():
            yield GaugeMetricFamily(f"taskq_gateway_{name}", title, value)
        if self.certificate_ends is not None:
            title = "When the TLS certificate expires, in seconds since the epoch"
            yield GaugeMetricFamily(
                "taskq_gateway_certificate_expiry_seconds", title, self.certificate_ends
            )
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

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def text(families: Iterable[Metric]) -> bytes:
    """Return metrics in Prometheus' text format."""
    return generate_latest(_Once(families))
