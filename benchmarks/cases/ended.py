"""A queue after years: nearly all of its campaigns have ended, next to one that has had few."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from benchmarks.findings import Finding, Goal
from benchmarks.stage import Bench, Stage
from benchmarks.turns import compare

OLD: Final = "/old"
#: Campaigns that have ended in the queue that is compared with.
FEW: Final = 20
MOST: Final = Goal(1.5, "most")


def beneath(bench: Bench) -> Iterator[Finding]:
    """Claim at the root, and explain it, with 20,000 ended campaigns, next to 20.

    They are made as a set, and their tasks are counted but are not there; see `ended.sql`. One
    campaign has tasks that wait.
    """
    scale = bench.scale
    with bench.stage() as many, bench.stage() as few:
        _grow(many, scale.ended)
        _grow(few, min(FEW, scale.ended))
        for name, ask in ASKED.items():
            compared = compare(
                partial(_ms, many, ask, scale.lookups),
                partial(_ms, few, ask, scale.lookups),
                scale.rounds,
            )
            what = f"{name}, {scale.ended:,} ended campaigns"
            yield compared.finding(what, "ms", f"{FEW} ended", MOST)


def _grow(stage: Stage, ended: int) -> None:
    stage.client.create_campaign(OLD)
    stage.database.execute("benchmarks.sql/ended", path=OLD, first=1, last=ended)
    stage.database.execute("benchmarks.sql/fold", rest="0")
    stage.seed(100)
    stage.settle()


def _campaigns_to_claim_in(stage: Stage) -> None:
    stage.database.rows("servable", path="/", lifetime_s=None, offers=[], most=3)


def _claim_that_finds_nothing(stage: Stage) -> None:
    stage.database.rows("servable", path="/", lifetime_s=None, offers=[], most=3)
    stage.database.rows("left_over", path="/", offers=[])


def _counts(stage: Stage) -> None:
    stage.client.campaign("/").status()


def _explanation(stage: Stage) -> None:
    stage.client.campaign("/").explain()


ASKED: Final[dict[str, Callable[[Stage], None]]] = {
    "the campaigns to claim in": _campaigns_to_claim_in,
    "a claim that finds nothing": _claim_that_finds_nothing,
    "counts of the root": _counts,
    "explain /": _explanation,
}


def _ms(stage: Stage, ask: Callable[[Stage], None], lookups: int) -> float:
    """Return the median time of a question, in milliseconds."""
    times = []
    for _ in range(max(3, lookups // 500)):
        began = time.perf_counter()
        ask(stage)
        times.append(1_000 * (time.perf_counter() - began))
    return statistics.median(times)
