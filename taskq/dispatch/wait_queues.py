"""Who waits for something to claim, in which order, and who is to be woken: no clock, no database.

Agents that serve the same wait in one queue. What can be claimed is told by pots: so many tasks,
for whoever serves one of certain servings, and each task in one pot only. From each pot as many are
woken as it has tasks, those first who came first, in whichever of its queues they stand; so however
many servings have the same tasks in view, nobody is woken for a task that is somebody else's.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from taskq.dispatch.fair_share import Scope

#: Queues of agents that leave campaigns out, which they cannot run.
MOST_APART: Final = 64

#: Numbers of servings, counted from 0, and how many tasks agents of each of them could claim.
Pot: TypeAlias = tuple[Sequence[int], int]


@dataclass(slots=True)
class _Queue:
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

    serving: Scope
    queue: _Queue
    number: int


class WaitQueues:
    """Futures that wait, in a queue for each serving. Each step costs as much as it wakes."""

    def __init__(self) -> None:
        # In the order in which they are to be asked for.
        self._queues: OrderedDict[Scope, _Queue] = OrderedDict()
        self._numbers = itertools.count()
        # Queues of those who leave campaigns out.
        self._apart = 0

    def __bool__(self) -> bool:
        return bool(self._queues)

    def __len__(self) -> int:
        return sum(len(queue.waiting) for queue in self._queues.values())

    def __contains__(self, serving: Scope) -> bool:
        queue = self._queues.get(serving)
        return queue is not None and bool(queue.waiting)

    def __iter__(self) -> Iterator[asyncio.Future[bool]]:
        """Go through all who wait."""
        for queue in self._queues.values():
            yield from queue.waiting.values()

    def serving(self, serving: Scope) -> Scope:
        """Return the serving in whose queue somebody waits.

        Who leaves campaigns out has a queue of its own, as long as these are few: one asks for each
        of them. Beyond, it waits with those who do not, and may be woken for nothing.
        """
        serving = serving.rounded()
        if serving.without and serving not in self._queues and self._apart >= MOST_APART:
            return serving.drawn()
        return serving

    def join(self, serving: Scope, woken: asyncio.Future[bool], *, hoping: bool) -> Place:
        """Enter a queue. hoping: to learn if nothing is unfinished, which is not known yet."""
        queue = self._queues.get(serving)
        if queue is None:
            queue = self._queues[serving] = _Queue()
            self._apart += bool(serving.without)
        place = Place(serving, queue, next(self._numbers))
        place.queue.waiting[place.number] = woken
        if hoping:
            place.queue.hoping[place.number] = woken
        return place

    def leave(self, place: Place) -> None:
        """Leave the queue, woken or not."""
        place.queue.remove(place.number)
        if not place.queue.waiting and self._queues.get(place.serving) is place.queue:
            del self._queues[place.serving]
            self._apart -= bool(place.serving.without)

    def servings(self, most: int) -> list[Scope]:
        """Return those to ask for next, of which somebody waits; the ones asked last come last.

        Where there are more than that, half of them are those in which most wait: whoever waits in
        many keeps nobody else from being asked for.
        """
        servings = list(itertools.islice(self._queues, most))
        if len(self._queues) > most:
            crowded = heapq.nlargest(most // 2, self._queues, key=self._crowd)
            servings = list(dict.fromkeys([*crowded, *servings]))[:most]
        for serving in servings:
            self._queues.move_to_end(serving)
        return servings

    def _crowd(self, serving: Scope) -> int:
        return len(self._queues[serving].waiting)

    def first(self, serving: Scope) -> list[asyncio.Future[bool]]:
        """Take out of one queue who came first; empty if nobody waits there."""
        queue = self._queues.get(serving)
        return [] if queue is None else list(itertools.islice(_first([queue]), 1))

    def take(
        self, servings: Sequence[Scope], pots: Iterable[Pot], unfinished: Sequence[int]
    ) -> list[asyncio.Future[bool]]:
        """Take out of the queues who is to be woken.

        unfinished: tasks that are not final, for each serving. Where there are none, all are taken
        to whom that is news.
        """
        taken: list[asyncio.Future[bool]] = []
        queues = [self._queues.get(serving) or _Queue() for serving in servings]
        for queue, left in zip(queues, unfinished, strict=True):
            if not left:
                for number, woken in list(queue.hoping.items()):
                    queue.remove(number)
                    taken.append(woken)
            elif len(queue.hoping) < len(queue.waiting):
                queue.hoping = dict(queue.waiting)
        for numbers, tasks in pots:
            taken += itertools.islice(_first([queues[number] for number in numbers]), tasks)
        return taken


def _first(queues: Sequence[_Queue]) -> Iterator[asyncio.Future[bool]]:
    """Take out of some queues, one by one, who came first and has not given up."""
    heads = [(queue.first(), which) for which, queue in enumerate(queues) if queue.waiting]
    heapq.heapify(heads)
    while heads:
        number, which = heapq.heappop(heads)
        queue = queues[which]
        woken = queue.waiting[number]
        queue.remove(number)
        if queue.waiting:
            heapq.heappush(heads, (queue.first(), which))
        if not woken.done():
            yield woken
