"""Measurements taken in turn, so that what the machine does meanwhile hits all alike."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

Measure: TypeAlias = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Compared:
    """Ours and the limit, each measured `rounds` times in turn; medians.

    ratio: the median of the rounds' ratios; least, most: their range.
    """

    ours: float
    limit: float
    ratio: float
    least: float
    most: float
    rounds: int


def compare(ours: Measure, limit: Measure, rounds: int) -> Compared:
    """Measure both in turn, the limit first, so many times."""
    pairs = []
    for _ in range(rounds):
        bound = limit()
        pairs.append((ours(), bound))
    ratios = [own / bound for own, bound in pairs]
    return Compared(
        ours=statistics.median(own for own, _ in pairs),
        limit=statistics.median(bound for _, bound in pairs),
        ratio=statistics.median(ratios),
        least=min(ratios),
        most=max(ratios),
        rounds=rounds,
    )
