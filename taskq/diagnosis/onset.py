"""Since when ends are as they are: the time at which a share, or a mean, moved.

A share moved between two times if the likelihood of all attempts with one share before and another
from then on exceeds that with one share for all by more than chance: by Wilks' theorem (Ann. Math.
Statist. 9, 1938, 60) twice the logarithm of their ratio is distributed as chi square; the
probability is multiplied by the number of times that were tried (Bonferroni). A mean moved if it
differs by far more than it varies before and afterwards: what grows slowly, as where tasks come
sorted by size, did not move at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate, pairwise
from typing import Final

#: The probability that chance moves a share.
_CHANCE: Final = 0.001
#: A mean moves by so many standard deviations of the means before and after; a steady growth by
#: less than 3.5, however long it lasts.
_STEP: Final = 6.0
#: Times on both sides of a step, and the attempts that each of them must have.
_LEAST_BEFORE: Final = 3
_LEAST_AFTER: Final = 2
_LEAST_NUMBERS: Final = 8
#: The most windows of equal numbers on one side of a time.
_MOST_PARTS: Final = 12
#: Numbers on both sides of a rise; and the least variance that is believed of one side.
_LEAST_RISEN: Final = 5
_LEAST_SPREAD: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Window:
    """What ended in a time. part: how many attempts of `whole` ended in the way that is asked for.

    first_at, first_task: when the first of these ended, and the least id of their tasks.
    """

    starts: datetime
    part: int
    whole: int
    first_at: datetime | None = None
    first_task: int | None = None


@dataclass(frozen=True, slots=True)
class Onset:
    """When attempts began to end in a way. is_new: whether none, or far fewer, ended so before.

    first_task: the least id of the tasks that ended so in the first time.
    """

    since: datetime
    first_task: int | None
    is_new: bool


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers of a time: how many, their mean and the variance of these numbers."""

    starts: datetime
    number: int
    mean: float
    variance: float


@dataclass(frozen=True, slots=True)
class Step:
    """When a mean moved; before, after: the means of both sides, and of how many attempts."""

    since: datetime
    before: float
    after: float
    attempts: int


def onset(windows: Sequence[Window]) -> Onset | None:
    """Return since when attempts end in a way as often as they do; None if none ends so."""
    some = [window for window in sorted(windows, key=lambda it: it.starts) if window.whole > 0]
    first = next((place for place, window in enumerate(some) if window.part), None)
    if first is None:
        return None
    cut = _moved(some)
    is_new = cut is not None
    begins = some[first if cut is None else cut]
    return Onset(begins.first_at or begins.starts, begins.first_task, is_new)


def _moved(windows: Sequence[Window]) -> int | None:
    """Return the first window in which the share is larger than before; None if it is the same."""
    parts = [0, *accumulate(window.part for window in windows)]
    wholes = [0, *accumulate(window.whole for window in windows)]
    all_alike = likelihood(parts[-1], wholes[-1])
    best, gain = None, 0.0
    for cut in range(1, len(windows)):
        rest, of_rest = parts[-1] - parts[cut], wholes[-1] - wholes[cut]
        if rest * wholes[cut] <= parts[cut] * of_rest:  # it has become smaller
            continue
        found = likelihood(parts[cut], wholes[cut]) + likelihood(rest, of_rest) - all_alike
        if found > gain:
            best, gain = cut, found
    if best is None or (len(windows) - 1) * math.erfc(math.sqrt(gain)) > _CHANCE:
        return None
    after = (parts[-1] - parts[best]) / (wholes[-1] - wholes[best])
    # It moved within a time: the one before has a part of the new share.
    earlier = windows[best - 1]
    usual = parts[best - 1] / wholes[best - 1] if best > 1 else 0.0
    return best - (earlier.part / earlier.whole > usual + (after - usual) / 4)


def likelihood(part: int, whole: int) -> float:
    """Return the logarithm of the likelihood of so many of all, with their own share."""
    rest = whole - part
    found = part * math.log(part / whole) if part else 0.0
    return found + (rest * math.log(rest / whole) if rest else 0.0)


def step(times: Sequence[Numbers], settled: timedelta = timedelta()) -> Step | None:
    """Return when the mean of numbers moved; None if it did not, or too little is known.

    settled: how long after the first time the means are still those of a beginning, such as of
    attempts that end first since they are short.
    """
    known = sorted((it for it in times if it.number >= _LEAST_NUMBERS), key=lambda it: it.starts)
    known = [it for it in known if it.starts >= known[0].starts + settled]
    best, most = None, _STEP
    for cut in range(_LEAST_BEFORE, len(known) - _LEAST_AFTER + 1):
        before, after = known[:cut], known[cut:]
        size = abs(_mean(after) - _mean(before))
        spread = math.sqrt(
            (_squares(before) + _squares(after)) / (len(known) - 2)
            + sum(it.variance / it.number for it in known) / len(known)
        )
        if size > most * spread:
            best, most = cut, size / spread if spread else math.inf
    if best is None:
        return None
    before, after = known[:best], known[best:]
    return Step(after[0].starts, _mean(before), _mean(after), sum(it.number for it in known[best:]))


def risen(times: Sequence[tuple[datetime, float]], least: float) -> datetime | None:
    """Return since when numbers are larger, by `least` or more; None if they have not risen.

    times: each with its number. As for shares, by the likelihoods of normal distributions with one
    mean, and with one before and one from then on.
    """
    known = sorted(times)
    cut = _rise([number for _, number in known], least)
    return None if cut is None else known[cut][0]


def step_among(times: Sequence[tuple[datetime, float]]) -> Step | None:
    """Return when numbers moved as for `step`, of which too few times are known; else None.

    times: each with its number. Both sides of the likeliest time are parted in windows, of which
    each has the same number.
    """
    known = sorted(times)
    numbers = [number for _, number in known]
    cut = _rise(numbers) or _rise([-number for number in numbers])
    if cut is None:
        return None
    found = step([*_parted(known[:cut]), *_parted(known[cut:])])
    return found if found and found.since == known[cut][0] else None


def _parted(known: Sequence[tuple[datetime, float]]) -> list[Numbers]:
    """Return numbers in windows of equal numbers."""
    windows = min(len(known) // _LEAST_NUMBERS, _MOST_PARTS)
    bounds = [len(known) * it // windows for it in range(windows + 1)] if windows else []
    found = []
    for first, behind in pairwise(bounds):
        some = [number for _, number in known[first:behind]]
        mean = math.fsum(some) / len(some)
        variance = math.fsum((it - mean) ** 2 for it in some) / len(some)
        found.append(Numbers(known[first][0], len(some), mean, variance))
    return found


def _rise(values: Sequence[float], least: float = 0.0) -> int | None:
    """Return the place from which on numbers are larger; None if they clearly are from none."""
    number = len(values)
    sums = [0.0, *accumulate(values)]
    squares = [0.0, *accumulate(value * value for value in values)]

    def spread(first: int, behind: int) -> float:
        whole = behind - first
        return squares[behind] - squares[first] - (sums[behind] - sums[first]) ** 2 / whole

    best, gain = None, 0.0
    for cut in range(_LEAST_RISEN, number - _LEAST_RISEN + 1):
        if (sums[-1] - sums[cut]) / (number - cut) - sums[cut] / cut < least:
            continue
        apart = max(spread(0, cut) + spread(cut, number), number * _LEAST_SPREAD)
        found = number / 2 * math.log(max(spread(0, number), apart) / apart)
        if found > gain:
            best, gain = cut, found
    if best is None or number * math.erfc(math.sqrt(gain)) > _CHANCE:
        return None
    return best


def _mean(times: Sequence[Numbers]) -> float:
    return sum(it.mean for it in times) / len(times)


def _squares(times: Sequence[Numbers]) -> float:
    middle = _mean(times)
    return sum((it.mean - middle) ** 2 for it in times)
