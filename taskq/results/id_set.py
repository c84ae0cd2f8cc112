"""Sets of ids, compact if they are nearly all of a range."""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

#: The largest possible id.
LAST_ID: Final = 2**63 - 1


class IdSet:
    """A set of positive ids that grows; 16 bytes for each range of neighbours."""

    def __init__(self) -> None:
        self._firsts = array("q")
        self._lasts = array("q")
        self._new = array("q")

    @classmethod
    def of_steps(cls, steps: Iterable[int]) -> IdSet:
        """Return the set that `steps` describes; raise `ValueError` for invalid steps."""
        found, at = cls(), 0
        numbers = iter(steps)
        for left_out in numbers:
            within = next(numbers, 0)
            if left_out < (1 if found._firsts else 0) or within < 1:
                raise ValueError("these are not the steps of a set")
            found._firsts.append(at + left_out + 1)
            at += left_out + within
            if at > LAST_ID:
                raise ValueError("the ids are too large")
            found._lasts.append(at)
        return found

    def steps(self) -> Iterator[int]:
        """Yield alternately how many ids are left out, from 1 on, and how many are in the set."""
        self.settle()
        at = 0
        for first, last in zip(self._firsts, self._lasts, strict=True):
            yield first - at - 1
            yield last - first + 1
            at = last

    def __len__(self) -> int:
        self.settle()
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    def __contains__(self, number: int) -> bool:
        """Return whether an id is in the set, ignoring ids added since the last `settle`."""
        place = bisect_left(self._lasts, number)
        return place < len(self._lasts) and self._firsts[place] <= number

    def add(self, number: int) -> None:
        """Add an id."""
        self._new.append(number)

    def gaps(self, after: int, count: int) -> list[tuple[int, int]]:
        """Return the next ranges of ids above `after` that are not in the set, `count` at most.

        A range is its first and last id; the last one of all ends with `LAST_ID`. Ids added since
        the last `settle` count as not in the set.
        """
        found: list[tuple[int, int]] = []
        place = bisect_right(self._lasts, after)
        begin = after + 1
        while len(found) < count and begin <= LAST_ID:
            end = self._firsts[place] - 1 if place < len(self._firsts) else LAST_ID
            if begin <= end:
                found.append((begin, end))
            begin = self._lasts[place] + 1 if place < len(self._lasts) else LAST_ID + 1
            place += 1
        return found

    def remove(self, some: Iterable[int]) -> None:
        """Remove ids, in time linear in the number of ranges."""
        self.settle()
        gone = sorted(set(some))
        place, firsts, lasts = 0, array("q"), array("q")
        for first, last in zip(self._firsts, self._lasts, strict=True):
            begin = first
            place = bisect_left(gone, first, place)
            while place < len(gone) and gone[place] <= last:
                if begin < gone[place]:
                    firsts.append(begin)
                    lasts.append(gone[place] - 1)
                begin = gone[place] + 1
                place += 1
            if begin <= last:
                firsts.append(begin)
                lasts.append(last)
        self._firsts, self._lasts = firsts, lasts

    def settle(self) -> None:
        """Merge added ids into the ranges, in time linear in the number of ranges."""
        if not self._new:
            return
        added = ((number, number) for number in sorted(self._new))
        ranges = heapq.merge(zip(self._firsts, self._lasts, strict=True), added)
        firsts, lasts = array("q"), array("q")
        for first, last in ranges:
            if lasts and first <= lasts[-1] + 1:
                lasts[-1] = max(last, lasts[-1])
            else:
                firsts.append(first)
                lasts.append(last)
        self._firsts, self._lasts, self._new = firsts, lasts, array("q")
