"""`ls` of a campaign while the tree around it grows: the measurement of AMGA's directories."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator
from functools import partial
from typing import Final

from benchmarks.findings import Finding, Goal
from benchmarks.stage import Bench, Stage
from benchmarks.turns import compare
from taskq.planning.trial import CAMPAIGN

# Park et al., 2015: `ls` of one of so many directories in AMGA 2.5.0, each of 100 entries (ms).
AMGA_MS: Final = {
    1: 1.7,
    50: 1.7,
    100: 1.7,
    500: 1.8,
    1_000: 1.8,
    5_000: 1.8,
    10_000: 1.8,
    50_000: 2.0,
    100_000: 2.6,
}


def listed(bench: Bench) -> Iterator[Finding]:
    """List one of 1 to 100,000 sibling campaigns of 100 tasks, at random, 10,000 times each.

    Each sibling has one campaign below it, which holds the tasks. Both are made as a set, and the
    tasks are counted but are not there; see `siblings.sql`.
    """
    scale = bench.scale
    first, last = scale.siblings[0], scale.siblings[-1]
    lookups = max(1, scale.lookups // scale.rounds)
    with bench.stage() as many, bench.stage() as few:
        _grow(few, 0, first)
        before = 0
        for size in scale.siblings:
            bench.tell(f"{size:,} siblings")
            _grow(many, before, size)
            before = size
            compared = compare(
                partial(_list_ms, many, size, lookups),
                partial(_list_ms, few, first, lookups),
                scale.rounds,
            )
            amga = AMGA_MS.get(size)
            yield Finding(
                f"ls, one of {size:,} siblings",
                compared.ours,
                "ms",
                f"one of {first:,}",
                compared.limit,
                compared.ratio,
                Goal(1.2, "most") if size == last else None,
                "" if amga is None else f"AMGA in 2015: {amga} ms",
            )


def _grow(stage: Stage, first: int, last: int) -> None:
    """Add siblings to those that there are, `first`, until there are `last`."""
    stage.database.execute("benchmarks.sql/siblings", path=CAMPAIGN, first=first + 1, last=last)
    stage.database.execute("benchmarks.sql/fold", rest="0")
    stage.settle()


def _list_ms(stage: Stage, size: int, lookups: int) -> float:
    """Return the median time of `ls` for campaigns drawn at random, in milliseconds."""
    draw = random.Random(size)  # noqa: S311  # repeatable, guards nothing
    paths = [f"{CAMPAIGN}/d{draw.randint(1, size):06}" for _ in range(lookups)]
    times = []
    with stage.database.connection() as statements:
        for path in paths:
            began = time.perf_counter()
            statements.rows("counts", path=path, depth=1)
            times.append(1_000 * (time.perf_counter() - began))
    return statistics.median(times)
