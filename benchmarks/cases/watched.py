"""One-row claims while people, Prometheus and notifications look on."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Final

from benchmarks.cases.claims import MAX_ONE_S
from benchmarks.findings import Finding, Goal
from benchmarks.gateways import running_keeper
from benchmarks.load.clients import BATCHED, Clients
from benchmarks.onlookers import PAGES, SCRAPE_S, TOPS, onlookers
from benchmarks.processes import cpu_s
from benchmarks.stage import Bench, Stage
from benchmarks.turns import frozen_in_turn, ratio
from taskq.planning.trial import CAMPAIGN

#: Campaigns next to the one in which is claimed.
OTHERS: Final = 100


def by_all(bench: Bench) -> Iterator[Finding]:
    """Claim one row at a time, 8 clients of one process, with all who look attached and without.

    Two `taskq top`, ten pages with what is live on them, the metrics every five seconds, and a
    keeper with notifications. In between they are frozen, many times: what differs is not that the
    machine was slower for a while.
    """
    seconds, rounds = bench.scale.seconds, bench.scale.rounds
    pairs: list[tuple[float, float]] = []
    with bench.stage() as stage, running_keeper(stage.database.dsn, bench.folder):
        for number in range(min(OTHERS, bench.scale.campaigns)):
            stage.add(f"{CAMPAIGN}/c{number:03}")
        stage.seed(round(MAX_ONE_S / 2 * seconds * 2 * (rounds + 1)))
        stage.settle()
        known = _backends(stage)
        with onlookers(stage.client, CAMPAIGN, bench.folder) as pids:
            at_work = {name: [pid] for name, pid in pids.items()}
            at_work["the server for all of these"] = list(_backends(stage) - known)
            with Clients(stage.database, BATCHED) as clients:
                before = {name: cpu_s(*some) for name, some in at_work.items()}
                for number in range(rounds):
                    bench.tell(f"round {number + 1} of {rounds}")
                    pairs.append(frozen_in_turn(clients.rate, pids.values(), seconds))
                shares = {
                    name: (cpu_s(*some) - before[name]) / (rounds * seconds)
                    for name, some in at_work.items()
                }
    yield Finding(
        f"one task at a time, {BATCHED.total} clients, batched; {TOPS} tops, {PAGES} pages, "
        f"metrics every {SCRAPE_S:g} s, notifications",
        statistics.median(watched for watched, _ in pairs),
        "tasks/s",
        "nobody looks",
        statistics.median(alone for _, alone in pairs),
        ratio([watched / alone for watched, alone in pairs]),
        Goal(0.97),
        note="of a core: "
        + ", ".join(f"{name} {100 * share:.1f} %" for name, share in shares.items()),
    )


def _backends(stage: Stage) -> set[int]:
    """Return the server's processes for connections to this database."""
    return {row["pid"] for row in stage.database.rows("benchmarks.sql/backends")}
