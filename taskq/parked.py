"""Who waits for something to claim, in which order, and who is to be woken: no clock, no database.

Agents that serve the same wait in one line. What can be claimed is told by pots: so many tasks, for
whoever serves one of certain servings, and each task in one pot only. From each pot as many are
woken as it has tasks, those first who came first, in whichever of its lines they stand; so however
many servings have the same tasks in view, nobody is woken for a task that is somebody else's.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from taskq.choice import Serving

#: Numbers of servings, counted from 0, and how many tasks agents of each of them could claim.
Pot: TypeAlias = tuple[Sequence[int], int]


@dataclass(slots=True)
class _Line:
    """Who waits in one serving, by number, in the order of arrival.

    hoping: those of them to whom it is news if nothing is unfinished.
    """

    waiting: OrderedDict[int, asyncio.Future[bool]] = field(default_factory=OrderedDict)
    hoping: dict[int, asyncio.Future[bool]] = field(default_factory=dict)

    def first(self) -> int:
        return next(iter(self.waiting))

    def remove(self, number: int) -> None:
        self.waiting.pop(number, None)
        self.hoping.pop(number, None)


@dataclass(frozen=True, slots=True)
class Place:
    """Where somebody waits, to leave it by."""

    serving: Serving
    line: _Line
    number: int


class Parked:
    """Futures that wait, in a line for each serving. Each step costs as much as it wakes."""

    def __init__(self) -> None:
        # In the order in which they are to be asked for.
        self._lines: OrderedDict[Serving, _Line] = OrderedDict()
        self._numbers = itertools.count()

    def __bool__(self) -> bool:
        return bool(self._lines)

    def __len__(self) -> int:
        return sum(len(line.waiting) for line in self._lines.values())

    def __contains__(self, serving: Serving) -> bool:
        line = self._lines.get(serving)
        return line is not None and bool(line.waiting)

    def __iter__(self) -> Iterator[asyncio.Future[bool]]:
        """Go through all who wait."""
        for line in self._lines.values():
            yield from line.waiting.values()

    def join(self, serving: Serving, woken: asyncio.Future[bool], *, hoping: bool) -> Place:
        """Get in line. hoping: to learn if nothing is unfinished, which is not known yet."""
        place = Place(serving, self._lines.setdefault(serving, _Line()), next(self._numbers))
        place.line.waiting[place.number] = woken
        if hoping:
            place.line.hoping[place.number] = woken
        return place

    def leave(self, place: Place) -> None:
        """Get out of line, woken or not."""
        place.line.remove(place.number)
        if not place.line.waiting and self._lines.get(place.serving) is place.line:
            del self._lines[place.serving]

    def servings(self, most: int) -> list[Serving]:
        """Return those to ask for next, of which somebody waits; the ones asked last come last."""
        servings = list(itertools.islice(self._lines, most))
        for serving in servings:
            self._lines.move_to_end(serving)
        return servings

    def take(
        self, servings: Sequence[Serving], pots: Iterable[Pot], unfinished: Sequence[int]
    ) -> list[asyncio.Future[bool]]:
        """Take out of line who is to be woken.

        unfinished: tasks that are not final, for each serving. Where there are none, all are taken
        to whom that is news.
        """
        taken: list[asyncio.Future[bool]] = []
        lines = [self._lines.get(serving) or _Line() for serving in servings]
        for line, left in zip(lines, unfinished, strict=True):
            if not left:
                for number, woken in list(line.hoping.items()):
                    line.remove(number)
                    taken.append(woken)
            elif len(line.hoping) < len(line.waiting):
                line.hoping = dict(line.waiting)
        for numbers, tasks in pots:
            taken += itertools.islice(_first([lines[number] for number in numbers]), tasks)
        return taken


def _first(lines: Sequence[_Line]) -> Iterator[asyncio.Future[bool]]:
    """Take out of some lines, one by one, who came first and has not given up."""
    heads = [(line.first(), which) for which, line in enumerate(lines) if line.waiting]
    heapq.heapify(heads)
    while heads:
        number, which = heapq.heappop(heads)
        line = lines[which]
        woken = line.waiting[number]
        line.remove(number)
        if line.waiting:
            heapq.heappush(heads, (line.first(), which))
        if not woken.done():
            yield woken
