"""Run times and results that moved lately, in the latest attempts: sums take most of an hour."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from taskq.db.access import Queries
from taskq.diagnosis.ends import NOTABLE_RUNS, Move
from taskq.diagnosis.odd_results import HostResults
from taskq.diagnosis.onset import step_among

#: The most attempts whose run times are read.
MOST_RUNS: Final = 3_000


def moved_runs(database: Queries, path: str) -> list[Move]:
    """Return the campaigns at and below a path whose run times moved, and when."""
    found = []
    for row in database.rows("place_runs", path=path, kind=None, name=None, most=MOST_RUNS):
        logs = map(math.log, row["run_s"])
        step = step_among([*zip(row["began_at"], logs, strict=True)])
        if step and abs(step.after - step.before) >= math.log(NOTABLE_RUNS):
            found.append(Move(row["campaign"], "runs", step))
    return found


def moved_results(groups: Sequence[HostResults]) -> list[Move]:
    """Return the campaigns whose ranked numbers moved, and when."""
    ranked: dict[str, list[tuple[datetime, float]]] = defaultdict(list)
    for it in groups:
        if it.ranks:
            known = zip(it.claims, it.numbers, strict=True)
            ranked[it.campaign] += [(at, number) for at, number in known if number is not None]
    steps = {campaign: step_among(numbers) for campaign, numbers in ranked.items()}
    return [Move(campaign, "results", step) for campaign, step in steps.items() if step]


def with_latest(known: Sequence[Move], latest: Sequence[Move]) -> list[Move]:
    """Return what moved in the sums, and of the rest what moved in the latest attempts."""
    there = {(it.campaign, it.what) for it in known}
    return [*known, *(it for it in latest if (it.campaign, it.what) not in there)]
