"""Latency of claims with a front, compared with the same gateway without one."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Final

from benchmarks.cases.distance import DATABASE_ROUND_TRIP_S, far_address
from benchmarks.cases.front import crowd_of, doors, half_saturated, table_is_true
from benchmarks.findings import Finding, Goal, not_measured
from benchmarks.stage import Bench, Stage
from benchmarks.turns import ratio
from taskq.model.errors import ServerUnsuitable

MS: Final = 1_000.0


def near(bench: Bench) -> Iterator[Finding]:
    """Claim at half the rate that a gateway without a front can serve: how long, next to that one.

    An open loop of exchanges that only claim: due at random, measured from when they were due, by
    more agents than are needed. All is reported after the measurement.
    """
    with bench.stage() as stage:
        dsn = stage.database.dsn
        yield from _compared(bench, stage, dsn, agents=bench.scale.agents, goal=Goal(5))


def far(bench: Bench) -> Iterator[Finding]:
    """Do the same with gateway, Redis and refiller 25 ms away from the database."""
    where = f", {MS * DATABASE_ROUND_TRIP_S:g} ms from the database"
    with bench.stage() as stage, ExitStack() as entered:
        try:
            dsn = entered.enter_context(far_address(stage.database, bench.folder))
        except ServerUnsuitable as error:
            yield not_measured(f"claims{where}", str(error))
            return
        agents = bench.scale.agents_far_database
        yield from _compared(bench, stage, dsn, agents=agents, goal=Goal(10), where=where)


def _compared(
    bench: Bench, stage: Stage, dsn: str, *, agents: int, goal: Goal, where: str = ""
) -> Iterator[Finding]:
    fronts, plains = [], []
    with doors(bench, stage, dsn) as two:
        crowd = crowd_of(stage, agents, bench.scale)
        work = half_saturated(bench, crowd, two.plain, agents)
        for _ in range(bench.scale.rounds):
            plains.append(crowd.run(two.plain, work).seen)
            fronts.append(crowd.run(two.front, work).seen)
        what = f"{work.rate:,.0f} claims due a second{where}"
        yield _shorter(
            f"half of the claims within, {what}",
            [latency.p50_s for latency in fronts],
            [latency.p50_s for latency in plains],
            goal,
        )
        yield _shorter(
            f"99 of 100 claims within, {what}",
            [latency.p99_s for latency in fronts],
            [latency.p99_s for latency in plains],
            goal,
        )
        yield table_is_true(bench, stage, crowd, what)


def _shorter(what: str, front: Sequence[float], plain: Sequence[float], goal: Goal) -> Finding:
    """Return the line that says how many times shorter it takes with the front."""
    return Finding(
        what,
        MS * statistics.median(front),
        "ms",
        "without the front",
        MS * statistics.median(plain),
        ratio([slow / fast for slow, fast in zip(plain, front, strict=True)]),
        goal,
    )
