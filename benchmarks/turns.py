"""Alternating measurements, so that other load of the machine affects both alike."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from benchmarks.findings import Finding, Goal, Ratio
from taskq.errors import Unavailable

Measure: TypeAlias = Callable[[], float]


_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Compared:
    """Ours and the limit, each measured several times in turn; medians."""

    ours: float
    limit: float
    ratio: Ratio

    def finding(self, what: str, unit: str, beside: str, goal: Goal | None) -> Finding:
        """Return the line of the table that says so."""
        return Finding(what, self.ours, unit, beside, self.limit, self.ratio, goal)


def compare(ours: Measure, limit: Measure, rounds: int) -> Compared:
    """Measure both in turn, the limit first, so many times."""
    pairs = []
    for _ in range(rounds):
        bound = _above_zero(limit)
        pairs.append((ours(), bound))
    return Compared(
        ours=statistics.median(own for own, _ in pairs),
        limit=statistics.median(bound for _, bound in pairs),
        ratio=ratio([own / bound for own, bound in pairs]),
    )


def _above_zero(limit: Measure) -> float:
    """Measure again where nothing was done, as in a short one while the machine is busy."""
    for _ in range(_TRIES):
        if found := limit():
            return found
    raise Unavailable(f"the limit was measured {_TRIES} times, and nothing was done in it")


def ratio(ratios: list[float]) -> Ratio:
    """Return the median and the range of some ratios."""
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))
