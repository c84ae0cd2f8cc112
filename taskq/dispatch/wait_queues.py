"""Wait queues: agents waiting for tasks, in order of arrival, and the choice of those to wake.

Agents of the same scope wait in one queue. The claimable tasks come in groups: a number of tasks
that agents of any of certain scopes could claim. Each task is in one group only. Each group wakes
as many agents as it has tasks, first come first served over all of its queues. So no agent is
woken for another agent's task, however many scopes see the same tasks.

Pure: neither clock nor database.
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

#: Queues of agents that leave out campaigns that they cannot run.
MOST_APART: Final = 64

#: Indices of scopes, and the number of tasks that agents of any of them could claim.
TaskGroup: TypeAlias = tuple[Sequence[int], int]


@dataclass(slots=True)
class _Queue:
    """The futures of the agents that wait in one scope, by number, in order of arrival.

    wake_at_end: those to wake when nothing is unfinished any more, since they do not know yet.
    """

    waiting: OrderedDict[int, asyncio.Future[bool]] = field(default_factory=OrderedDict)
    wake_at_end: dict[int, asyncio.Future[bool]] = field(default_factory=dict)

    def first(self) -> int:
        return next(iter(self.waiting))

    def remove(self, number: int) -> None:
        self.waiting.pop(number, None)
        self.wake_at_end.pop(number, None)


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """The place of a waiting agent; it leaves with it."""

    scope: Scope
    queue: _Queue
    number: int


class WaitQueues:
    """A queue of waiting futures for each scope. A call costs more, the more it wakes."""

    def __init__(self) -> None:
        # In the order in which to ask about their scopes.
        self._queues: OrderedDict[Scope, _Queue] = OrderedDict()
        self._numbers = itertools.count()
        # The number of queues whose scopes leave out campaigns.
        self._apart = 0

    def __bool__(self) -> bool:
        return bool(self._queues)

    def __len__(self) -> int:
        return sum(len(queue.waiting) for queue in self._queues.values())

    def __contains__(self, scope: Scope) -> bool:
        queue = self._queues.get(scope)
        return queue is not None and bool(queue.waiting)

    def __iter__(self) -> Iterator[asyncio.Future[bool]]:
        """Iterate over all waiting futures."""
        for queue in self._queues.values():
            yield from queue.waiting.values()

    def queue_scope(self, scope: Scope) -> Scope:
        """Return the scope of the queue in which an agent of this scope waits.

        Scopes that leave out campaigns have queues of their own, `MOST_APART` at most, since each
        costs a question. Beyond that, an agent waits with those that leave out none, and may be
        woken for nothing.
        """
        scope = scope.rounded()
        if scope.without and scope not in self._queues and self._apart >= MOST_APART:
            return scope.drawn()
        return scope

    def join(self, scope: Scope, woken: asyncio.Future[bool], *, wake_at_end: bool) -> QueuePlace:
        """Enter a queue. wake_at_end: also wake when nothing is unfinished any more."""
        queue = self._queues.get(scope)
        if queue is None:
            queue = self._queues[scope] = _Queue()
            self._apart += bool(scope.without)
        place = QueuePlace(scope, queue, next(self._numbers))
        place.queue.waiting[place.number] = woken
        if wake_at_end:
            place.queue.wake_at_end[place.number] = woken
        return place

    def leave(self, place: QueuePlace) -> None:
        """Leave the queue, woken or not."""
        place.queue.remove(place.number)
        if not place.queue.waiting and self._queues.get(place.scope) is place.queue:
            del self._queues[place.scope]
            self._apart -= bool(place.scope.without)

    def next_scopes(self, most: int) -> list[Scope]:
        """Return the scopes to ask about next, least recently asked first, `most` at most.

        If there are more, half of the result are the scopes in which most agents wait: a client
        that waits in many scopes does not keep others from their turn.
        """
        scopes = list(itertools.islice(self._queues, most))
        if len(self._queues) > most:
            crowded = heapq.nlargest(most // 2, self._queues, key=self._length)
            scopes = list(dict.fromkeys([*crowded, *scopes]))[:most]
        for scope in scopes:
            self._queues.move_to_end(scope)
        return scopes

    def _length(self, scope: Scope) -> int:
        return len(self._queues[scope].waiting)

    def first(self, scope: Scope) -> list[asyncio.Future[bool]]:
        """Take the agent that came first out of one queue; empty if none waits there."""
        queue = self._queues.get(scope)
        return [] if queue is None else list(itertools.islice(_first([queue]), 1))

    def take(
        self, scopes: Sequence[Scope], groups: Iterable[TaskGroup], unfinished: Sequence[int]
    ) -> list[asyncio.Future[bool]]:
        """Take the futures to wake out of the queues of these scopes.

        unfinished: the number of tasks that are not final, for each scope. If it is 0, the futures
        that asked to be woken at the end are taken too.
        """
        taken: list[asyncio.Future[bool]] = []
        queues = [self._queues.get(scope) or _Queue() for scope in scopes]
        for queue, left in zip(queues, unfinished, strict=True):
            if not left:
                for number, woken in list(queue.wake_at_end.items()):
                    queue.remove(number)
                    taken.append(woken)
            elif len(queue.wake_at_end) < len(queue.waiting):
                queue.wake_at_end = dict(queue.waiting)
        for numbers, tasks in groups:
            taken += itertools.islice(_first([queues[number] for number in numbers]), tasks)
        return taken


def _first(queues: Sequence[_Queue]) -> Iterator[asyncio.Future[bool]]:
    """Take futures out of some queues one by one, oldest first; skip those that are done."""
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
