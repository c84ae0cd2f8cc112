"""Run times and results that moved lately, in the latest attempts: sums take most of an hour."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal, TypeAlias

from taskq.diagnosis.ends import NEAR, NOTABLE_RUNS, Move
from taskq.diagnosis.odd_results import HostResults
from taskq.diagnosis.onset import step_among

#: A number of an attempt, with when and of which task it was claimed.
_Claimed: TypeAlias = tuple[datetime, int, float]


def latest_moves(groups: Sequence[HostResults]) -> list[Move]:
    """Return the campaigns whose run times, or ranked numbers, moved, and when."""
    campaigns: dict[str, list[HostResults]] = defaultdict(list)
    for it in groups:
        campaigns[it.campaign].append(it)
    found = []
    for campaign, some in campaigns.items():
        # A database of before has neither times nor tasks of results, and shows no move.
        runs = [
            (at, task, math.log(run_s))
            for it in some
            for at, task, run_s in zip(it.claims, it.tasks, it.runs, strict=False)
        ]
        moved = _move(campaign, "runs", runs)
        if moved and abs(moved.step.after - moved.step.before) >= math.log(NOTABLE_RUNS):
            found.append(moved)
        numbers = [
            (at, task, number)
            for it in some
            for at, task, number in zip(it.claims, it.tasks, it.numbers, strict=False)
            if it.ranks and number is not None
        ]
        if moved := _move(campaign, "results", numbers):
            found.append(moved)
    return found


def _move(
    campaign: str, what: Literal["runs", "results"], numbers: Sequence[_Claimed]
) -> Move | None:
    step = step_among([(at, number) for at, _, number in numbers])
    if step is None:
        return None
    known = sorted(numbers)
    before = [task for at, task, _ in known if at < step.since]
    after = [task for at, task, _ in known if at >= step.since]
    return Move(campaign, what, step, before[-NEAR:], after[:NEAR], is_near=True)


def with_latest(known: Sequence[Move], latest: Sequence[Move]) -> Iterator[Move]:
    """Yield what moved in the latest attempts, and of the rest what moved in the sums."""
    there = {(it.campaign, it.what) for it in latest}
    yield from latest
    yield from (it for it in known if (it.campaign, it.what) not in there)
