"""Monitoring queries while tasks are claimed: their latency, and their cost for the server."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Final

from benchmarks.cases.claims import MAX_ONE_S
from benchmarks.findings import Finding, Goal
from benchmarks.load.clients import BATCHED, Clients
from benchmarks.meter import busy_clock, held_snapshot
from benchmarks.stage import Bench, Stage
from taskq.db.connections import Statements
from taskq.planning.trial import CAMPAIGN

Ask = tuple[str, Mapping[str, Any]]

STATUS: Final[Ask] = ("counts", {"path": CAMPAIGN, "depth": 0})
LS: Final[Ask] = ("counts", {"path": CAMPAIGN, "depth": 1})
TREE: Final[Ask] = ("counts", {"path": CAMPAIGN, "depth": None})
AGENTS: Final[Ask] = ("agents", {"path": CAMPAIGN, "limit": 1_000})
MONITORED: Final = (STATUS, AGENTS, LS, TREE, AGENTS)
"""Queries of `status`, `ls` and a display of everything."""

MONITOR_S: Final = 1.0
PAUSE_S: Final = 0.01
BELOW: Final = Goal(10.0, "most")
CLAIMED: Final = f"{CAMPAIGN}/large"


def monitor(bench: Bench) -> Iterator[Finding]:
    """Ask for status, ls and top once a second while 8 clients claim: the time that takes."""
    scale = bench.scale
    seconds = scale.seconds * scale.rounds
    with (
        bench.stage() as stage,
        stage.kept(),
        closing(stage.database.dedicated_connection()) as connection,
    ):
        stage.seed(round(MAX_ONE_S / 2 * seconds))
        stage.settle()
        shares = []
        with Clients(stage.database, BATCHED) as clients, connection.connected() as statements:
            _ask(statements, MONITORED)  # prepares them, which a monitor does once
            clock, name = busy_clock(statements)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                began, busy = time.monotonic(), clock()
                _ask(statements, MONITORED)
                shares.append(100 * (clock() - busy) / MONITOR_S)
                time.sleep(max(0.0, min(began + MONITOR_S, end) - time.monotonic()))
            clients.check_fed()
    yield Finding(
        "status, ls and top once a second",
        statistics.mean(shares),
        "% of a core",
        goal=Goal(1.0, "most"),
        note=name,
    )


def latency(bench: Bench) -> Iterator[Finding]:
    """Ask for status and ls of 10,000,000 tasks in 1,000 campaigns while 8 clients claim.

    Then once more after a snapshot has been held for 60 s, and after 60 s without a keeper.
    """
    scale = bench.scale
    with bench.stage() as stage:
        for number in range(scale.campaigns - 1):
            stage.add(f"{CAMPAIGN}/c{number:04}")
        stage.add(CLAIMED)
        need = round(MAX_ONE_S / 4 * (2 * scale.held_s + 6 * scale.seconds))
        stage.seed(max(scale.tasks, need), CLAIMED)
        stage.settle()
        load = replace(BATCHED, path=CLAIMED)
        with Clients(stage.database, load) as clients:
            with stage.kept():
                yield from _latencies(bench, stage, "")
                bench.tell(f"holding a snapshot for {scale.held_s:g} s")
                with held_snapshot(stage.database):
                    time.sleep(scale.held_s)
                    yield from _latencies(bench, stage, f", snapshot held for {scale.held_s:g} s")
            bench.tell(f"no keeper for {scale.held_s:g} s")
            time.sleep(scale.held_s)
            yield from _latencies(bench, stage, f", {scale.held_s:g} s without a keeper")
            clients.check_fed()


def _latencies(bench: Bench, stage: Stage, when: str) -> Iterator[Finding]:
    seconds = bench.scale.seconds
    with closing(stage.database.dedicated_connection()) as line, line.connected() as statements:
        for name, ask in (("status", STATUS), ("ls", LS)):
            _ask(statements, [ask] * 10)  # prepares the statement and warms the caches
            times = []
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                began = time.perf_counter()
                _ask(statements, [ask])
                times.append(1_000 * (time.perf_counter() - began))
                time.sleep(PAUSE_S)
            yield Finding(
                f"{name}{when}: 99 of 100 within",
                statistics.quantiles(times, n=100)[-1],
                "ms",
                goal=BELOW,
                note=f"median {statistics.median(times):.2f} ms of {len(times)}",
            )


def _ask(statements: Statements, asks: Sequence[Ask]) -> None:
    for name, values in asks:
        statements.rows(name, **values)
