"""What ended at a place, and next to it at others, in the order of claims or of seeding.

Consecutive claims of a host share these neighbours and are one stretch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

#: Neighbours on each side.
NEAR: Final = 5
#: Hosts below which nobody knows which of them is right.
LEAST_HOSTS: Final = 3
#: Stretches below which nothing is concluded.
LEAST_STRETCHES: Final = 5


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A result, or a run time, on a host or at a site. number: NaN if it has none."""

    place: int
    host: str
    digest: int
    number: float


#: Consecutive results of a host, and those of others next to them: first before, then behind them.
Stretch: TypeAlias = tuple[Sequence[Neighbour], Sequence[Neighbour]]


def stretches(results: Sequence[Neighbour]) -> Iterator[Stretch]:
    """Yield all stretches, in the order of claims."""
    hosts = [result.host for result in results]
    first = 0
    while first < len(results):
        host = hosts[first]
        behind = first + 1
        while behind < len(results) and hosts[behind] == host:
            behind += 1
        near: list[Neighbour] = []
        for places in (range(first - 1, -1, -1), range(behind, len(results))):
            others = (results[place] for place in places if hosts[place] != host)
            near.extend(islice(others, NEAR))
        yield results[first:behind], near
        first = behind
