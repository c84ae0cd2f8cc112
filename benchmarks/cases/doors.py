"""The five ways to the queue that the study of AMGA compares."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Final

from benchmarks.cases.crowds import Crowd
from benchmarks.findings import Finding
from benchmarks.gateways import make_certificate, running_gateways
from benchmarks.load import clients
from benchmarks.load.clients import Load
from benchmarks.load.work import LoadWork
from benchmarks.stage import Bench
from benchmarks.turns import ratio
from taskq.planning.trial import CAMPAIGN

AGENTS: Final = 16
DIRECT: Final = Load(2, AGENTS // 2, 1, CAMPAIGN)
"""As many direct clients, each with a connection of its own."""


def amga(bench: Bench) -> Iterator[Finding]:
    """Exchange by new, resumed and kept connections, with and without TLS or a gateway."""
    scale = bench.scale
    with bench.stage() as stage, ExitStack() as entered:
        certificate = make_certificate(bench.folder)
        dsn = stage.database.dsn
        plain = entered.enter_context(running_gateways(dsn, 1, bench.folder))
        secret = entered.enter_context(running_gateways(dsn, 1, bench.folder, certificate))
        crowd = Crowd(stage, AGENTS, scale.seconds)
        work = LoadWork(AGENTS)
        closed = replace(work, kept=False)
        encrypted = replace(closed, authority=certificate.file)

        def direct() -> float:
            crowd.feed()
            return clients.rate(stage.database, DIRECT, scale.seconds)

        ways: dict[str, Callable[[], float]] = {
            "TLS, a new connection each time": partial(crowd.rate, secret, encrypted),
            "TLS, a resumed session each time": partial(
                crowd.rate, secret, replace(encrypted, resumed=True)
            ),
            "plain HTTP, a new connection each time": partial(crowd.rate, plain, closed),
            "plain HTTP, connections kept": partial(crowd.rate, plain, work),
            "direct, connections kept": direct,
        }
        rates: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(scale.rounds):
            for way, rate in ways.items():
                rates[way].append(rate())
    *_, last = rates.values()
    for way, found in rates.items():
        shares = [own / limit for own, limit in zip(found, last, strict=True)]
        yield Finding(
            f"{AGENTS} agents, one task in each exchange: {way}",
            statistics.median(found),
            "exchanges/s",
            "direct",
            statistics.median(last),
            ratio(shares),
        )
