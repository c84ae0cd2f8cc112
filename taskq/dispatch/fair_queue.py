"""Which exchanges share a statement, so that none of them can make it dear for the others.

What waits for the same as many others goes with them at little more cost; what would cost the
others something is bounded, whoever sends it:

- A session stands in line once. What else it asks stands behind that, so that many requests of one
  client are no more than one.
- Agents that serve the same share statements, and others do not: so many kinds of agents at most go
  together, of which the most numerous is always one, and all get equal shares.
- A statement takes so many tasks, reports and characters.
- What is large by itself goes apart, one at a time, and so does for a while whoever has asked for
  what could not be done: a statement that fails is done again in halves.

Pure: times are seconds of any clock that rises.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from taskq.dispatch.exchange_request import ExchangeRequest
from taskq_agent.protocol import MAX_CLAIM

#: Kinds of agents, by what they serve, in one statement; the costs of each are its own.
MOST_KINDS: Final = 8
#: Reports, and tasks claimed, in one statement, and characters of reports; unless one has more.
MOST_TASKS: Final = MAX_CLAIM
MOST_CHARS: Final = 1 << 20
#: An exchange with more than this is large: reports and tasks together, campaigns, characters.
LARGE_TASKS: Final = 250
LARGE_CAMPAIGNS: Final = 4
LARGE_CHARS: Final = 1 << 19
#: For how long a session goes apart whose exchange made a statement fail; and how many are known.
APART_S: Final = 60.0
_MOST_APART: Final = 10_000

_Kind: TypeAlias = "tuple[str, tuple[str, ...]] | None"


class QueuedExchange(Protocol):
    """What waits: an exchange, until nobody waits for its answer any more (`callback` is None)."""

    exchange: ExchangeRequest
    callback: Any


One = TypeVar("One", bound=QueuedExchange)


def is_large(exchange: ExchangeRequest) -> bool:
    """Tell whether an exchange costs so much that others should not wait for it."""
    reports = len(exchange.reports)
    return (
        reports + exchange.want > LARGE_TASKS
        or (
            reports > LARGE_CAMPAIGNS
            and len({f.campaign for f in exchange.fences}) > LARGE_CAMPAIGNS
        )
        or chars(exchange) > LARGE_CHARS
    )


def chars(exchange: ExchangeRequest) -> int:
    """Return how long the reports of an exchange are."""
    reports = exchange.reports
    return len(reports[0]) if len(reports) == 1 else sum(map(len, reports))  # mostly it is one


class FairQueue(Generic[One]):
    """What waits for a statement, or is in one; each session in one place only."""

    def __init__(self) -> None:
        # Those that wait in line, by kind; the kinds in the order in which they were served.
        self._queues: OrderedDict[_Kind, deque[One]] = OrderedDict()
        self._large: deque[One] = deque()
        # The sessions that wait in line or are in a statement, and what stands behind that.
        self._present: set[int] = set()
        self._behind: dict[int, deque[One]] = {}
        self._apart: OrderedDict[int, float] = OrderedDict()
        self._waiting = self._common = 0

    def __len__(self) -> int:
        """Return how many wait."""
        return self._waiting

    @property
    def common(self) -> int:
        """How many wait in line to go with others."""
        return self._common

    @property
    def large(self) -> int:
        """How many wait in line to go apart."""
        return len(self._large)

    def put(self, one: One, now: float) -> bool:
        """Let an exchange wait; tell whether it is the first of a line, so that it could go now."""
        self._waiting += 1
        session = one.exchange.session
        if session in self._present:
            self._behind.setdefault(session, deque()).append(one)
            return False
        self._present.add(session)
        return self._enqueue(one, now) == 1

    def take(self, most: int, now: float) -> list[One]:
        """Take what goes into one statement, `most` exchanges at most; `done` must follow."""
        kinds = self._kinds()
        taken: list[One] = []
        tasks = reports = size = 0
        while kinds and len(taken) < most:
            for kind in list(kinds):
                one = self._first(kind, now)
                if one is None:
                    kinds.remove(kind)
                    continue
                tasks += one.exchange.want
                reports += len(one.exchange.reports)
                size += chars(one.exchange)
                if taken and (tasks > MOST_TASKS or reports > MOST_TASKS or size > MOST_CHARS):
                    return taken
                taken.append(self._pop(kind))
                if len(taken) == most:
                    break
        return taken

    def take_large(self, now: float) -> One | None:
        """Take what goes apart next; `done` must follow."""
        while self._large:
            one = self._large.popleft()
            self._waiting -= 1
            if one.callback is not None:
                return one
            self._leave(one, now)
        return None

    def done(self, taken: Iterable[One], now: float) -> None:
        """Let go on who was behind exchanges that have been answered."""
        for one in taken:
            self._leave(one, now)

    def set_apart(self, session: int, now: float) -> None:
        """Serve a session apart for a while."""
        self._apart[session] = now + APART_S
        self._apart.move_to_end(session)
        if len(self._apart) > _MOST_APART:
            self._apart.popitem(last=False)

    def _enqueue(self, one: One, now: float) -> int:
        """Let one stand in line; return how many do so, for the same way."""
        exchange = one.exchange
        if self._is_apart(exchange.session, now) or is_large(exchange):
            self._large.append(one)
            return len(self._large)
        kind = (exchange.scope.path, exchange.scope.offers) if exchange.want else None
        queue = self._queues.get(kind)
        if queue is None:
            queue = self._queues[kind] = deque()
        queue.append(one)
        self._common += 1
        return self._common

    def _pop(self, kind: _Kind) -> One:
        self._waiting -= 1
        self._common -= 1
        return self._queues[kind].popleft()

    def _is_apart(self, session: int, now: float) -> bool:
        return bool(self._apart) and now < self._apart.get(session, 0.0)

    def _leave(self, one: One, now: float) -> None:
        """Let a session out, and let it stand in line anew if it has asked for more."""
        session = one.exchange.session
        behind = self._behind.get(session) if self._behind else None
        while behind:
            following = behind.popleft()
            if following.callback is not None:
                self._enqueue(following, now)
                return
            self._waiting -= 1
        if behind is not None:
            del self._behind[session]
        self._present.discard(session)

    def _kinds(self) -> list[_Kind]:
        """Return the kinds that are served together now: the most numerous, and those in turn."""
        if len(self._queues) <= MOST_KINDS:
            return list(self._queues)
        largest = max(self._queues, key=lambda kind: len(self._queues[kind]))
        kinds = [largest]
        for kind in self._queues:
            if kind != largest:
                kinds.append(kind)
            if len(kinds) == MOST_KINDS:
                break
        for kind in kinds:
            self._queues.move_to_end(kind)
        return kinds

    def _first(self, kind: _Kind, now: float) -> One | None:
        """Return who is first in a line; what nobody waits for any more is left out."""
        queue = self._queues[kind]
        while queue and queue[0].callback is None:
            self._leave(self._pop(kind), now)
        if queue:
            return queue[0]
        del self._queues[kind]
        return None
