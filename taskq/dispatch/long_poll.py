"""Long polls: agents for whom there is nothing to claim are parked, and woken when there is.

However many are parked, one statement per turn asks for all of them what could be claimed (see
sql/functions/claimable.sql), and as many are woken as there are tasks for, longest parked first.
There is no notification in this: one that is missed would leave an agent idle for ever, and each
task that is submitted would cost one.

Who comes while others wait for the same need not ask before it is parked: see `has_waiting`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from taskq.db.connections import Database
from taskq.dispatch.closing import Closing, cancel
from taskq.dispatch.fair_share import Scope
from taskq.dispatch.wait_queues import WaitQueues

log = logging.getLogger(__name__)

#: With the statement and the claim, a new task is in somebody's hands within a second.
POLL_S: Final = 0.8
#: Turns of several gateways drift apart by up to so much of it.
_JITTER: Final = 0.05
#: What this gateway itself has made claimable is looked at so soon, with all that follows at once,
#: but not sooner than so long after the last turn.
_POKE_S: Final = 0.05
_APART_S: Final = 0.25
#: Servings that one statement asks for; where there are more, they take turns.
_MOST_SERVINGS: Final = 1_000
#: So many are woken at a time, so long apart, since each of them then asks: 10,000 a second.
_SLICE: Final = 250
_SLICE_S: Final = 0.025
#: A statement that takes longer hangs.
_ANSWER_S: Final = 10.0
_MOST_BACKOFF_S: Final = 10.0


class LongPoll(Closing):
    """Parks agents of one asyncio loop until there is something for them."""

    def __init__(
        self,
        database: Database,
        poll_s: float = POLL_S,
        *,
        found: Callable[[Scope], None] = lambda _serving: None,
        front: bool = False,
    ) -> None:
        """Open nothing yet; poll_s: seconds between turns, while anybody is parked.

        found: is called, before anybody is woken, with each (rounded) serving in which a turn has
        seen something to claim: whoever keeps for a while that there was nothing must forget it.
        front: whether those who wait can claim what waits in the lists of a front.
        """
        self._line = database.dedicated_async_connection()
        self._poll_s = poll_s
        self._found = found
        self._front = front
        self._parked = WaitQueues()
        self._woken: deque[asyncio.Future[bool]] = deque()
        self._watch: asyncio.Task[None] | None = None
        self._due = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._asked_at = float("-inf")
        self._failures = 0
        self._draining = False

    @property
    def parked(self) -> int:
        """How many wait."""
        return len(self._parked)

    def has_waiting(self, serving: Scope) -> bool:
        """Tell whether anybody waits in a serving: there was nothing to claim a moment ago."""
        return self._parked.serving(serving) in self._parked

    async def wait(self, serving: Scope, seconds: float, unfinished: int | None = None) -> bool:
        """Park the caller until there may be something for it to claim.

        True: ask again, since there may be something, or there is nothing unfinished any more.
        False: time is up, or the gateway drains.

        unfinished: what the caller has been told just before. Who knows of the 0 must say so, and
        is then woken for tasks only; or else it is woken at each turn.
        """
        if self._draining or seconds <= 0:
            return False
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[bool] = loop.create_future()
        place = self._parked.join(self._parked.serving(serving), woken, hoping=unfinished != 0)
        if self._watch is None:
            self._watch = loop.create_task(self._keep_watch())
        timer = loop.call_later(seconds, _settle, woken, False)
        try:
            return await woken
        finally:
            timer.cancel()
            self._parked.leave(place)
            if not self._parked:
                self._due.set()  # there is nobody left to watch for

    def poke(self) -> None:
        """Look soon: tasks have become claimable through this gateway."""
        if self._watch is not None and not self._failures:
            earliest_s = self._asked_at + _APART_S - asyncio.get_running_loop().time()
            self._set_timer(max(_POKE_S, earliest_s))

    def drain(self) -> None:
        """Let everybody go at once, now and from now on."""
        self._draining = True
        for one in self._parked:
            _settle(one, False)
        for one in self._woken:
            _settle(one, False)
        self._due.set()

    async def close(self) -> None:
        """Let everybody go, and close the connection."""
        self.drain()
        if self._watch is not None:
            await cancel([self._watch])
        await self._line.close()

    async def _keep_watch(self) -> None:
        """Take turns while anybody is parked."""
        try:
            self._due.clear()
            while self._parked and not self._draining:
                self._set_timer(self._pause_s())
                await self._due.wait()
                self._due.clear()
                if self._parked and not self._draining:
                    await self._turn()
        finally:
            self._watch = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _pause_s(self) -> float:
        pause_s = min(self._poll_s * 2.0**self._failures, max(self._poll_s, _MOST_BACKOFF_S))
        return pause_s * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - it is no secret

    def _set_timer(self, delay_s: float) -> None:
        """See to it that the next turn comes within so many seconds."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + delay_s:
                return
            self._timer.cancel()
        self._timer = loop.call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._due.set()

    async def _turn(self) -> None:
        """Ask what can be claimed, and wake those that it is for."""
        try:
            await self._look()
        except Exception as error:  # noqa: BLE001 - whatever it is, the watch goes on
            if not self._failures:
                log.warning("cannot look for tasks to claim, trying on: %r", error)
            self._failures = min(self._failures + 1, 10)
        else:
            if self._failures:
                log.warning("looking for tasks to claim works again")
            self._failures = 0
        while self._woken:
            for _ in range(min(_SLICE, len(self._woken))):
                _settle(self._woken.popleft(), True)
            if self._woken:
                await asyncio.sleep(_SLICE_S)

    async def _look(self) -> None:
        """Note what can be claimed, and choose who is to be woken."""
        self._asked_at = asyncio.get_running_loop().time()
        servings = self._parked.servings(_MOST_SERVINGS)
        (row,) = await asyncio.wait_for(
            self._line.rows("claimable", servings=_encoded(servings), front=self._front), _ANSWER_S
        )
        pots, unfinished = row["claimable"], row["unfinished"]
        for number in {number for numbers, _ in pots for number in numbers}:
            self._found(servings[number])
        self._woken += self._parked.take(servings, pots, unfinished)


def _settle(woken: asyncio.Future[bool], outcome: bool) -> None:
    if not woken.done():
        woken.set_result(outcome)


def _encoded(servings: Sequence[Scope]) -> str:
    return json.dumps(
        [
            {"path": one.path, "lifetime_s": one.lifetime_s, "offers": one.offers}
            | ({"without": one.without} if one.without else {})
            for one in servings
        ]
    )
