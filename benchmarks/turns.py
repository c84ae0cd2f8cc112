"""Alternating measurements, so that other load of the machine affects both alike."""

from __future__ import annotations

import os
import signal
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from benchmarks.findings import Finding, Goal, Ratio
from taskq.model.errors import Unavailable

Measure: TypeAlias = Callable[[], float]


_TRIES: Final = 5
#: Parts of a measurement in which others are frozen in turn.
PARTS: Final = 4


@dataclass(frozen=True, slots=True)
class Compared:
    """Ours and the limit, each measured several times in turn; medians."""

    ours: float
    limit: float
    ratio: Ratio

    def finding(self, what: str, unit: str, compared: str, goal: Goal | None) -> Finding:
        """Return the line of the table that says so."""
        return Finding(what, self.ours, unit, compared, self.limit, self.ratio, goal)


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


def frozen_in_turn(
    rate: Callable[[float], float], groups: Iterable[int], seconds: float
) -> tuple[float, float]:
    """Return the rate next to others at work, and while they are frozen, in short parts.

    rate: measures for so many seconds. groups: the leaders of the others' process groups.
    """
    together: list[float] = []
    alone: list[float] = []
    groups = list(groups)
    try:
        for number in range(PARTS):
            # What comes first changes: next to, alone; alone, next to.
            for thawed in (True, False) if number % 2 else (False, True):
                _send(groups, signal.SIGCONT if thawed else signal.SIGSTOP)
                (together if thawed else alone).append(rate(seconds / PARTS))
    finally:
        _send(groups, signal.SIGCONT)
    return statistics.mean(together), statistics.mean(alone)


def _send(groups: Iterable[int], number: signal.Signals) -> None:
    for leader in groups:
        os.killpg(leader, number)
