"""Queues of a gateway: how long they may grow, and when refused clients should come again.

Ahead of a refused client are all clients in the queue, and all that were refused before and have
yet to come. The rate at which the queue has drained lately says how long they take. So each client
is asked to come when its turn is likely, with half of the queue left: nothing idles if clients come
a little late, and there is room if they come early. The turns follow one another, so they need no
random spread. (This is a virtual queue, such as numbered tickets at a counter: a turn is a number,
not a time, so that a better known rate corrects it.)

`TokenRate` bounds the requests of a token, at once and in the long run. A token that asks without
end, on any number of connections, takes a bounded share of what all tokens share. Each count falls
at the long-run rate, so a token that asks seldom never waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from taskq.db.connections import Database, Row
from taskq.gateway.errors import Busy

#: The rate assumed before one was measured; a client that then comes too early gets a better
#: answer.
FIRST_PER_S: Final = 1_000.0
LEAST_PER_S: Final = 20.0
#: Least and most seconds over which the rate is measured.
FRESH_S: Final = (0.5, 2.0)
#: Seconds without a refusal after which the rate is measured again.
APART_S: Final = 2.0
LONGEST_S: Final = 120.0


class Pace:
    """The pace of one queue. now: returns seconds of a clock that only rises."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._per_s = FIRST_PER_S
        self._last_at = -APART_S
        # The start of this measurement and of the next: a time, and the number served by then.
        self._since: tuple[float, int] = (0.0, 0)
        self._next: tuple[float, int] = (0.0, 0)
        # The last turn given: how many clients will have been served by then.
        self._turn = 0.0

    def wait_s(self, waiting: int, served: int, most: int) -> float:
        """Return the seconds for which a client should stay away.

        waiting: clients in the queue. served: clients that have left the queue since the start.
        most: clients that can be away at a time, however often each asks.
        """
        now = self._now()
        if now - self._last_at >= APART_S:
            self._since = self._next = (now, served)
        if now - self._last_at >= LONGEST_S:
            # All expected clients have come, or never will.
            self._turn = 0.0
        self._last_at = now
        self._measure(now, served)
        first = served + waiting / 2
        self._turn = max(first, min(self._turn, first + most)) + 1
        return max(0.01, round(min((self._turn - served) / self._per_s, LONGEST_S), 2))

    def _measure(self, now: float, served: int) -> None:
        least, most = FRESH_S
        since, then = self._since
        if now - since >= least:
            self._per_s = max((served - then) / (now - since), LEAST_PER_S)
        if now - self._next[0] >= most / 2:
            self._since, self._next = self._next, (now, served)


#: Statements that may wait for a connection; beyond that, callers get `Busy`.
MOST_WAITING: Final = 4_096


class StatementPool:
    """Runs statements, one at a time on each connection; the others wait, up to a limit."""

    def __init__(
        self, database: Database, most: int, clients: Callable[[], int] = lambda: MOST_WAITING
    ) -> None:
        """most: connections. clients: returns how many clients may have been refused."""
        self._free = [database.dedicated_async_connection() for _ in range(most)]
        self._turns = asyncio.Semaphore(most)
        self._waiting = 0
        self._taken = 0
        self._clients = clients
        self._pace = Pace(time.monotonic)

    async def rows(self, name: str, /, **values: object) -> list[Row]:
        """Return all rows of a statement; raise `Busy` if too many wait already."""
        if self._waiting >= MOST_WAITING:
            served = self._taken - self._waiting
            raise Busy(self._pace.wait_s(self._waiting, served, self._clients()))
        self._taken += 1
        self._waiting += 1
        try:
            async with self._turns:
                connection = self._free.pop()
                try:
                    return await connection.rows(name, **values)
                finally:
                    self._free.append(connection)
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        """Close the connections; no statement may be under way."""
        for connection in self._free:
            await connection.close()


#: Tokens that are counted; beyond that, those with the smallest counts are forgotten.
MOST_COUNTED: Final = 10_000


class TokenRate:
    """How often each token has asked lately.

    at_once: times that a token may ask at once. per_s: times a second in the long run. now: returns
    the time.
    """

    def __init__(
        self, at_once: int, per_s: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._at_once = at_once
        self._per_s = per_s
        self._now = now
        # By token: its count, and the time of that count.
        self._counts: dict[str, tuple[float, float]] = {}

    def __len__(self) -> int:
        """Return how many tokens are counted."""
        return len(self._counts)

    def wait_s(self, token: str) -> float:
        """Return the seconds after which a token may ask once more; 0: now."""
        excess = self._counted(token) - self._at_once
        return (excess + 1) / self._per_s if excess > -1 else 0.0

    def count(self, token: str) -> None:
        """Count that a token has asked, or will."""
        self._counts[token] = (self._counted(token) + 1, self._now())
        if len(self._counts) > MOST_COUNTED:
            self._counts = {
                one: self._counts[one]
                for one in sorted(self._counts, key=self._counted)[MOST_COUNTED // 2 :]
            }

    def forget(self, token: str) -> None:
        """Forget a token that turned out to be invalid."""
        self._counts.pop(token, None)

    def _counted(self, token: str) -> float:
        count, since = self._counts.get(token, (0.0, 0.0))
        return max(0.0, count - (self._now() - since) * self._per_s)
