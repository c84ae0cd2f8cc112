"""Choice of the best of many results: how many, by which value, and one of each group."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from taskq.model.errors import UsageError

ALL: Final = 100
#: Most results that can be chosen: their places are in memory.
MOST: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Best:
    """The best results: `n` of them, or `percent` of those with a number in `by`, rounded up.

    by: a dotted name, such as `result.score`. lowest: whether the lowest number is best. group: a
    dotted name, such as `payload.smiles`: of results with the same value there only the best
    counts, and percent is of these groups. Equal numbers are in the order of campaigns, by path,
    then of seeding: so the choice has exactly this size, and is always the same.
    """

    by: str
    n: int | None = None
    percent: float | Fraction | None = None
    lowest: bool = True
    group: str | None = None

    def __post_init__(self) -> None:
        if (self.n is None) == (self.percent is None):
            raise UsageError("say how many are wanted: either n or percent")
        if self.n is not None and (type(self.n) is not int or not 1 <= self.n <= MOST):
            raise UsageError(f"n must be a whole number from 1 to {MOST:,}, not {self.n!r:.80}")
        if self.percent is not None and not 0 < self.percent <= ALL:
            raise UsageError(f"percent must be above 0 and at most 100, not {self.percent!r:.80}")
        for name in ("by", "group"):
            value = getattr(self, name)
            if not (value is None and name == "group") and not (value and isinstance(value, str)):
                raise UsageError(f"{name} must be a dotted name, not {value!r:.80}")
        if self.group is not None and self.group.partition(".")[0] not in ("payload", "result"):
            raise UsageError(f"group must begin with payload. or result., not {self.group!r:.80}")

    def so_far(self, done: int, of: int) -> Best:
        """Return the choice while only `done` of `of` tasks are done: their share of `n`.

        All of `n` from the start would choose most of them too early.
        """
        return self if self.n is None else replace(self, n=max(1, math.ceil(self.n * done / of)))

    def number(self, ranked: int) -> int:
        """Return how many of `ranked` to choose; raise `UsageError` for more than a million."""
        if self.percent is None:
            return min(ranked, self.n or 0)
        wanted = math.ceil(Fraction(str(self.percent)) * ranked / ALL)
        if wanted > MOST:
            raise UsageError(f"{wanted:,} of {ranked:,} results: at most {MOST:,} can be chosen")
        return wanted
