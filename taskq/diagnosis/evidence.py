"""Statistics that compare a host, site or class of error with the rest: shares and run times.

A difference counts if the intervals of both sides, each with a confidence of 99.9 % or more, do
not overlap. Few attempts give wide intervals, so neither a number of attempts nor a share decides
alone. A look compares many hosts, and each class of errors: the intervals are so wide that all of
its comparisons together err with a probability of `ERRORS` at most (O. J. Dunn, J. Amer. Statist.
Assoc. 56, 1961, 52: Bonferroni's inequality), however they depend on each other. The procedure of
Benjamini and Hochberg finds weaker effects, and accepts a share of wrong findings for it: here each
of these accuses somebody. Places are compared within campaigns only, weighted by the place's
attempts, so that a bad campaign does not make a bad place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import NormalDist
from typing import Final

from taskq.model.words import percent

#: The tail outside a 99.9 % interval on each side.
TAIL: Final = 0.0005
#: The probability that a look at many hosts accuses one wrongly.
ERRORS: Final = 0.005
_HALVINGS: Final = 30
_MOST_TERMS: Final = 500
_PRECISION: Final = 1e-9
LEAST_RUNS: Final = 3


@dataclass(frozen=True, slots=True)
class Share:
    """A share of attempts, with its interval; all from 0 to 1."""

    share: float
    low: float
    high: float
    attempts: int

    @property
    def interval(self) -> str:
        """In words: `57 % to 99.7 %`."""
        return f"{percent(self.low)} to {percent(self.high)}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The share here and elsewhere, both with the weights that the campaigns have here.

    campaign, error_class: of what it is a share, if not of all failures in all campaigns.
    """

    here: Share
    elsewhere: Share
    campaign: str = field(default="", kw_only=True)
    error_class: str = field(default="", kw_only=True)

    @property
    def is_worse(self) -> bool:
        """Whether the share here is surely larger."""
        return self.here.low > self.elsewhere.high


@dataclass(frozen=True, slots=True)
class RunTimeSums:
    """Number of run times, and the sums of their natural logarithms and of the squares of these."""

    number: int = 0
    logs: float = 0.0
    squares: float = 0.0

    def __add__(self, other: RunTimeSums) -> RunTimeSums:
        return RunTimeSums(
            self.number + other.number, self.logs + other.logs, self.squares + other.squares
        )

    def __sub__(self, other: RunTimeSums) -> RunTimeSums:
        return RunTimeSums(
            self.number - other.number, self.logs - other.logs, self.squares - other.squares
        )

    @property
    def mean(self) -> float:
        """Mean of the logarithms."""
        return self.logs / self.number

    @property
    def variance(self) -> float:
        """Estimated variance of the logarithms."""
        return max(self.squares - self.number * self.mean**2, 0.0) / (self.number - 1)


@dataclass(frozen=True, slots=True)
class Slowness:
    """How many times as long as elsewhere attempts take, with the interval."""

    times: float
    low: float
    high: float

    @property
    def is_slower(self) -> bool:
        """Whether they surely take longer."""
        return self.low > 1


def tail_of(comparisons: int) -> float:
    """Return the tail outside an interval where a look makes so many comparisons."""
    return min(TAIL, ERRORS / max(comparisons, 1))


def share(part: float, attempts: float, tail: float = TAIL) -> Share:
    """Return a share with its interval, exact for any number of attempts.

    C. J. Clopper and E. S. Pearson, Biometrika 26, 1934, 404. With few attempts, which most hosts
    have, no other interval covers the true share as often as claimed.
    """
    if attempts <= 0:
        return Share(0.0, 0.0, 1.0, 0)
    part = min(part, attempts)  # over a gateway each is read at a moment of its own
    # Rounded for the cache: nearly all hosts are compared with nearly the same shares.
    bad, good = round(part, 3), round(attempts - part, 3)
    low = 0.0 if bad <= 0 else _quantile(tail, bad, good + 1)
    high = 1.0 if good <= 0 else 1 - _quantile(tail, good, bad + 1)
    return Share(part / attempts, low, high, round(attempts))


def chance_of(least: int, number: int, part: float) -> float:
    """Return the probability that so many of a number or more occur, each with probability part.

    For any number: terms of the binomial sum do not fit into a float from a thousand on.
    """
    return _beta(part, least, number - least + 1) if least > 0 else 1.0


@lru_cache(maxsize=10_000)
def _quantile(tail: float, a: float, b: float) -> float:
    """Return the quantile of the beta distribution at this probability."""
    if b == 1:
        return float(tail ** (1 / a))
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _beta(middle, a, b) < tail else (low, middle)
    return (low + high) / 2


def _beta(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function.

    By its continued fraction, evaluated with the modified Lentz method: W. H. Press et al.,
    Numerical Recipes, 3rd edition, 2007, section 6.4.
    """
    if not 0 < x < 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(1 - x, b, a)
    logs = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(logs + a * math.log(x) + b * math.log1p(-x)) / a
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    total = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for step in (even, odd):
            d, c = 1 / (1 + step * d), 1 + step / c
            total *= c * d
        if abs(c * d - 1) < _PRECISION:
            break
    return front * total


def compare(
    here: Mapping[str, tuple[int, int]],
    elsewhere: Mapping[str, tuple[int, int]],
    tail: float = TAIL,
) -> Comparison | None:
    """Compare a place with others; None if these have no attempts of its campaigns.

    here, elsewhere: by campaign, how many attempts count, and how many there are.
    """
    counted = attempts = expected = spread = 0.0
    for campaign, (part, whole) in here.items():
        other_part, other_whole = elsewhere.get(campaign, (0, 0))
        if other_whole and whole:
            counted, attempts = counted + part, attempts + whole
            expected += whole * other_part / other_whole
            spread += whole**2 / other_whole
    if not attempts:
        return None
    # The number of attempts that would give this precision in a single campaign.
    effective = attempts**2 / spread
    return Comparison(
        share(counted, attempts, tail), share(expected / attempts * effective, effective, tail)
    )


def slowness(
    here: Mapping[str, RunTimeSums],
    elsewhere: Mapping[str, RunTimeSums],
    tail: float = TAIL,
) -> Slowness | None:
    """Compare run times within campaigns; None if too few are known.

    The ratios of the geometric means are averaged, weighted by their precision. A few times may be
    alike by chance, so they vary as much as those elsewhere at least.
    """
    total = weights = 0.0
    for campaign, times in here.items():
        others = elsewhere.get(campaign, RunTimeSums())
        if min(times.number, others.number) < LEAST_RUNS:
            continue
        # Times of one machine vary by a percent or so for reasons that no sample shows.
        variance = (max(times.variance, others.variance) + 1e-4) / times.number
        variance += others.variance / others.number
        total += (times.mean - others.mean) / variance
        weights += 1 / variance
    if not weights:
        return None
    mean, half = total / weights, NormalDist().inv_cdf(1 - tail) / math.sqrt(weights)
    return Slowness(math.exp(mean), math.exp(mean - half), math.exp(mean + half))
