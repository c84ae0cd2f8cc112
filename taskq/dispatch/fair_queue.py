"""Queue of exchanges that limits what one client can cost the others of a batch.

An exchange that claims in the same scope as many others adds little to a statement. Everything that
costs the others something is bounded, for each sender:

- A session has one place in the queue. Its further exchanges wait behind that place, so that many
  requests of one client count as one.
- Agents of the same path and tags form a kind, and a statement serves 8 kinds at most. The most
  numerous kind is always served, and all served kinds get equal shares.
- The tasks, reports and characters of a statement are bounded.
- A large exchange is sent apart, one at a time, in parts, with a rest after each in proportion to
  its cost. A session whose exchange made a statement fail is also sent apart for a while: such a
  statement is repeated in halves, at the expense of all in it.

Pure: times are seconds of any clock that rises.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from taskq.dispatch.exchange_request import EncodedReports, ExchangeRequest
from taskq_agent.protocol import MAX_CLAIM, Answer

#: Kinds of agents, by path and tags, in one statement; each adds costs of its own.
MOST_KINDS: Final = 8
#: Reports, tasks claimed, and characters of reports in one statement, unless a single exchange has
#: more.
MOST_TASKS: Final = MAX_CLAIM
MOST_CHARS: Final = 1 << 20
#: An exchange is large above this many reports and tasks together, campaigns, or characters.
LARGE_TASKS: Final = 250
LARGE_CAMPAIGNS: Final = 4
LARGE_CHARS: Final = 1 << 19
#: Seconds for which a session is served apart after its exchange made a statement fail; and the
#: number of such sessions to remember.
APART_S: Final = 60.0
_MOST_APART: Final = 10_000

_Kind: TypeAlias = "tuple[str, tuple[str, ...]] | None"

#: Reports in a part, or a little more if several are encoded as one; and the most tasks that a
#: claim gets.
PART_REPORTS: Final = 50
PART_TASKS: Final = 125


class QueuedExchange(Protocol):
    """An exchange in the queue; `callback` is None when nobody waits for its answer any more."""

    exchange: ExchangeRequest
    callback: Any


Entry = TypeVar("Entry", bound=QueuedExchange)


def is_large(exchange: ExchangeRequest) -> bool:
    """Return whether an exchange costs so much that it must be sent apart."""
    reports = len(exchange.fences)
    return (
        reports + exchange.want > LARGE_TASKS
        or (
            reports > LARGE_CAMPAIGNS
            and len({some.campaign for some in exchange.reports}) > LARGE_CAMPAIGNS
        )
        or chars(exchange) > LARGE_CHARS
    )


def chars(exchange: ExchangeRequest) -> int:
    """Return the number of characters of an exchange's reports."""
    reports = exchange.reports
    return len(reports[0].text) if len(reports) == 1 else sum(len(some.text) for some in reports)


class FairQueue(Generic[Entry]):
    """The exchanges that wait for a statement or are in one. A session has one place at a time."""

    def __init__(self) -> None:
        # The exchanges that wait to be batched, by kind; the kind served longest ago comes first.
        self._queues: OrderedDict[_Kind, deque[Entry]] = OrderedDict()
        self._large: deque[Entry] = deque()
        # The sessions that have a place in the queue or in a statement, and their further
        # exchanges.
        self._present: set[int] = set()
        self._followers: dict[int, deque[Entry]] = {}
        self._apart_until: OrderedDict[int, float] = OrderedDict()
        self._waiting = self._common = 0

    def __len__(self) -> int:
        """Return how many exchanges wait."""
        return self._waiting

    @property
    def common(self) -> int:
        """How many exchanges wait to be batched, without those behind another of their session."""
        return self._common

    @property
    def large(self) -> int:
        """How many exchanges wait to be sent apart, counted as in `common`."""
        return len(self._large)

    def put(self, entry: Entry, now: float) -> bool:
        """Queue an exchange; return whether it is the only one of its sort, so that it can go."""
        self._waiting += 1
        session = entry.exchange.session
        if session in self._present:
            self._followers.setdefault(session, deque()).append(entry)
            return False
        self._present.add(session)
        return self._enqueue(entry, now) == 1

    def take(self, most: int, now: float) -> list[Entry]:
        """Take the next batch, `most` exchanges at most; the caller must call `done` afterwards."""
        kinds = self._kinds()
        taken: list[Entry] = []
        tasks = reports = size = 0
        while kinds and len(taken) < most:
            for kind in list(kinds):
                entry = self._first(kind, now)
                if entry is None:
                    kinds.remove(kind)
                    continue
                tasks += entry.exchange.want
                reports += len(entry.exchange.fences)
                size += chars(entry.exchange)
                if taken and (tasks > MOST_TASKS or reports > MOST_TASKS or size > MOST_CHARS):
                    return taken
                taken.append(self._pop(kind))
                if len(taken) == most:
                    break
        return taken

    def take_large(self, now: float) -> Entry | None:
        """Take the next large exchange; the caller must call `done` afterwards."""
        while self._large:
            entry = self._large.popleft()
            self._waiting -= 1
            if entry.callback is not None:
                return entry
            self._leave(entry, now)
        return None

    def put_back(self, entry: Entry) -> None:
        """Queue a partly answered large exchange behind the others; its session has a place."""
        self._waiting += 1
        self._large.append(entry)

    def done(self, taken: Iterable[Entry], now: float) -> None:
        """Free the places of answered exchanges for the exchanges that wait behind them."""
        for entry in taken:
            self._leave(entry, now)

    def set_apart(self, session: int, now: float) -> None:
        """Send a session's exchanges apart for `APART_S` seconds."""
        self._apart_until[session] = now + APART_S
        self._apart_until.move_to_end(session)
        if len(self._apart_until) > _MOST_APART:
            self._apart_until.popitem(last=False)

    def _enqueue(self, entry: Entry, now: float) -> int:
        """Queue an exchange as large or common; return how many such exchanges wait now."""
        exchange = entry.exchange
        if self._is_apart(exchange.session, now) or is_large(exchange):
            self._large.append(entry)
            return len(self._large)
        kind = (exchange.scope.path, exchange.scope.offers) if exchange.want else None
        queue = self._queues.get(kind)
        if queue is None:
            queue = self._queues[kind] = deque()
        queue.append(entry)
        self._common += 1
        return self._common

    def _pop(self, kind: _Kind) -> Entry:
        self._waiting -= 1
        self._common -= 1
        return self._queues[kind].popleft()

    def _is_apart(self, session: int, now: float) -> bool:
        return bool(self._apart_until) and now < self._apart_until.get(session, 0.0)

    def _leave(self, entry: Entry, now: float) -> None:
        """Free a session's place, or give it to the session's next exchange."""
        session = entry.exchange.session
        followers = self._followers.get(session) if self._followers else None
        while followers:
            following = followers.popleft()
            if following.callback is not None:
                self._enqueue(following, now)
                return
            self._waiting -= 1
        if followers is not None:
            del self._followers[session]
        self._present.discard(session)

    def _kinds(self) -> list[_Kind]:
        """Return the kinds of the next batch: the most numerous, and others in turn."""
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

    def _first(self, kind: _Kind, now: float) -> Entry | None:
        """Return the first exchange of a kind; drop those that nobody waits for any more."""
        queue = self._queues[kind]
        while queue and queue[0].callback is None:
            self._leave(self._pop(kind), now)
        if queue:
            return queue[0]
        del self._queues[kind]
        return None


class LargeTurns:
    """Says when the next large request may begin."""

    def __init__(self, rest_factor: float) -> None:
        """rest_factor: the length of a rest, in durations of its turn."""
        self._rest_factor = rest_factor
        self._began_at = self._next_at = 0.0
        #: Whether a turn is under way.
        self.under_way = False

    def begin(self, now: float) -> None:
        """Begin a turn."""
        self.under_way = True
        self._began_at = now

    def end(self, now: float, times: float = 1.0) -> None:
        """End the turn, and rest `times` as long as usual."""
        self.under_way = False
        self._next_at = now + self._rest_factor * times * (now - self._began_at)

    def wait_s(self, now: float) -> float:
        """Return the seconds that are left of the last rest."""
        return max(0.0, self._next_at - now)

    def cut_short(self) -> None:
        """End the rest now."""
        self._next_at = 0.0


class Parts:
    """The parts of an exchange: its reports in order, and its claim with the last ones.

    The claim is for `PART_TASKS` at most: an agent that wants more asks again.
    """

    def __init__(self, exchange: ExchangeRequest) -> None:
        self._left = list(_parts(exchange))[::-1]
        self._answers: list[Answer] = []

    def next(self) -> ExchangeRequest:
        """Take the next part; call `answered` before taking another."""
        return self._left.pop()

    def answered(self, answer: Answer) -> Answer | None:
        """Take in the answer to a part; after the last one return the answer to the exchange."""
        self._answers.append(answer)
        if self._left:
            return None
        answer.acks = tuple(ack for part in self._answers for ack in part.acks)
        answer.timeline = min(part.timeline for part in self._answers)
        return answer


def _parts(exchange: ExchangeRequest) -> Iterator[ExchangeRequest]:
    some: list[EncodedReports] = []
    first = after = 0
    for reports in exchange.reports:
        if after - first >= PART_REPORTS:
            yield exchange._replace(want=0, fences=exchange.fences[first:after], reports=some)
            some, first = [], after
        some.append(reports)
        after += reports.number
    want = min(exchange.want, PART_TASKS)
    yield exchange._replace(want=want, fences=exchange.fences[first:], reports=some)
