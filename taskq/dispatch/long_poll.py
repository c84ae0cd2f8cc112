"""Long polls: agents that find nothing to claim wait here until there are tasks.

One statement per turn asks for all waiting agents what could be claimed (see
claimable.sql). Each turn wakes as many agents as there are tasks for them, longest
waiting first. Notifications bring the next turn forward: a process that makes tasks claimable sends
one if any gateway has waiting agents (see announce_tasks.sql). A lost notification
costs only the rest of a pause. Reports and claims send none.

An agent that comes while others wait in the same scope need not try to claim before it waits: see
`has_waiting`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from taskq.db.connections import Database, Row
from taskq.dispatch.endings import Closing, cancel, resolve
from taskq.dispatch.fair_share import FRESH_S, Scope
from taskq.dispatch.wait_queues import WaitQueues
from taskq.model.errors import TaskqError
from taskq.model.loop_faults import LoopFaults

log = logging.getLogger(__name__)

#: Seconds between turns: with the statement and the claim, a new task is claimed within a second.
POLL_S: Final = 0.8
#: Jitter of a pause, as a share of it, so that the turns of several gateways drift apart.
_JITTER: Final = 0.05
#: Seconds until the next turn after this gateway has made tasks claimable, so that several changes
#: share a turn. After a turn, such turns rest for this many times its length, so that they never
#: cost more than a tenth of a server's core; and for so long at most. Where a server is busy with
#: other work, a turn takes longer without costing more: its length counts as at most so many times
#: that of the turn before.
_SOON_S: Final = 0.002
_REST: Final = 10
_LONGER: Final = 1.25
_MOST_REST_S: Final = 0.25
#: Scopes that one statement asks about; if there are more, they take turns.
_MOST_SCOPES: Final = 1_000
#: Agents woken at a time, and the seconds between: each claims at once, so 10,000 a second.
_WAKE_AT_ONCE: Final = 250
_WAKE_PAUSE_S: Final = 0.025
#: Agents, between two turns, that may pass on what they cannot have; see `pass_on`.
_MOST_PASSED: Final = 64
#: Seconds after which a statement is given up.
_ANSWER_S: Final = 10.0
_MOST_BACKOFF_S: Final = 10.0
#: Seconds without a waiting agent after which the connection listens no longer.
_LINGER_S: Final = 2.0
#: Seconds between two announcements of this gateway, so that several changes share one.
_ANNOUNCE_S: Final = 0.01


class LongPoll(Closing):
    """Keeps the agents of one asyncio loop waiting until there may be tasks for them."""

    def __init__(
        self,
        database: Database,
        poll_s: float = POLL_S,
        *,
        found: Callable[[Scope], None] = lambda _scope: None,
        front: bool = False,
    ) -> None:
        """Open nothing yet; poll_s: seconds between turns, while any agent waits.

        found: called, before any agent is woken, with each (rounded) scope in which a turn has seen
        tasks: a cache that says there are none must forget it. front: agents can claim the tasks in
        the lists of a front.
        """
        self._connection = database.dedicated_async_connection(self._look_soon)
        #: Held while a statement runs.
        self._line = asyncio.Lock()
        #: The number of the connection's opening that listens; None if none listens.
        self._listens_on: int | None = None
        self._announcing: asyncio.Task[None] | None = None
        self._to_announce = False
        self._lingering = False
        self._poll_s = poll_s
        self._found = found
        self._front = front
        self._queues = WaitQueues()
        self._woken: deque[asyncio.Future[bool]] = deque()
        self._polling: asyncio.Task[None] | None = None
        self._due = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._turn_s = float("inf")
        self._rested_at = float("-inf")
        self._news_at = float("-inf")
        self._failures = 0
        self._listening = LoopFaults(log, "listening for tasks of other gateways")
        self._passed = 0
        self._draining = False

    @property
    def waiting(self) -> int:
        """How many agents wait."""
        return len(self._queues)

    def has_waiting(self, scope: Scope) -> bool:
        """Return whether an agent waits in a scope; then it found nothing a moment ago."""
        return self._queues.queue_scope(scope) in self._queues

    async def wait(
        self,
        scope: Scope,
        seconds: float,
        unfinished: int | None = None,
        *,
        drawn_at: float = -math.inf,
    ) -> bool:
        """Wait until there may be a task for the caller, at most so many seconds.

        True: claim again, since there may be tasks, or nothing is unfinished any more. False: time
        is up, or the gateway drains.

        unfinished: the count in the caller's last answer. A caller that has seen a count of 0 must
        pass it, and is then woken for tasks only; otherwise each turn would wake it.

        drawn_at: when the order of campaigns was drawn in which the caller has just claimed.
        """
        if self._draining or seconds <= 0:
            return False
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[bool] = loop.create_future()
        scope = self._queues.queue_scope(scope)
        is_first = scope not in self._queues
        place = self._queues.join(scope, woken, wake_at_end=unfinished != 0)
        if self._polling is None:
            self._polling = loop.create_task(self._poll_while_waiting())
        elif self._lingering:
            self._due.set()
        if is_first and max(drawn_at, loop.time() - FRESH_S) < self._news_at:
            # The turn for these tasks did not ask for this scope, and an order of campaigns that
            # was drawn before them has just sent the caller here. Where it was drawn after them, a
            # turn would find nothing, and its rest would delay the turn for the next tasks.
            self._turn_soon()
        timer = loop.call_later(seconds, resolve, woken, False)
        try:
            return await woken
        finally:
            timer.cancel()
            self._queues.leave(place)
            if not self._queues:
                self._due.set()  # nobody waits any more: polling ends

    def pass_on(self, scope: Scope) -> None:
        """Wake the next agent in place of one that could not have its tasks.

        Otherwise hosts that must avoid the waiting tasks would hold up the agents behind them.
        """
        if self._passed < _MOST_PASSED:
            for future in self._queues.first(self._queues.queue_scope(scope)):
                self._passed += 1
                resolve(future, True)

    def poll_soon(self) -> None:
        """Take a turn soon, here and elsewhere: tasks have become claimable by this gateway."""
        self._look_soon()
        self._to_announce = not self._draining
        if self._to_announce and self._announcing is None:
            self._announcing = asyncio.get_running_loop().create_task(self._announce())

    def _look_soon(self) -> None:
        self._news_at = asyncio.get_running_loop().time()
        self._turn_soon()

    def _turn_soon(self) -> None:
        if self._polling is not None and not self._failures:
            rest_s = self._rested_at - asyncio.get_running_loop().time()
            self._set_timer(max(_SOON_S, rest_s))

    def drain(self) -> None:
        """End all waits, now and from now on."""
        self._draining = True
        for future in self._queues:
            resolve(future, False)
        for future in self._woken:
            resolve(future, False)
        self._due.set()

    async def close(self) -> None:
        """End all waits, and close the connection."""
        self.drain()
        await cancel([task for task in (self._polling, self._announcing) if task is not None])
        await self._connection.close()

    async def _poll_while_waiting(self) -> None:
        """Take turns while any agent waits."""
        try:
            self._due.clear()
            while not self._draining and (self._queues or await self._linger()):
                if not self._failures:
                    await self._listen(on=True)
                self._set_timer(self._pause_s())
                await self._due.wait()
                self._due.clear()
                if self._queues and not self._draining:
                    await self._turn()
        finally:
            self._polling = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    async def _linger(self) -> bool:
        """Wait for agents for a while; if none comes, listen no longer, and return False."""
        self._lingering = True
        loop = asyncio.get_running_loop()
        until = loop.time() + _LINGER_S
        while not self._queues and not self._draining and loop.time() < until:
            self._set_timer(until - loop.time())
            await self._due.wait()
            self._due.clear()
        if not self._queues:
            await self._listen(on=False)
        self._lingering = False
        return bool(self._queues)

    async def _listen(self, *, on: bool) -> None:
        """Listen for announcements, or no longer; without them, turns find all tasks."""
        if on == (self._listens_on == self._connection.opened):
            return
        with self._listening.noted(), suppress(TaskqError, asyncio.TimeoutError):
            if not self._connection.opened:
                await self._rows("installation")  # any: it opens the connection
            if not self._connection.is_direct:
                return  # a pooler's sessions are other clients' too
            (row,) = await self._rows("listen_for_tasks", listening=on)
            self._listens_on = self._connection.opened if row["listen_for_tasks"] else None

    async def _announce(self) -> None:
        """Notify other gateways, on the connection that listens: only others count as listening."""
        try:
            while self._to_announce and not self._draining:
                self._to_announce = False
                with self._listening.noted(), suppress(TaskqError, asyncio.TimeoutError):
                    await self._rows("announce_tasks")
                await asyncio.sleep(_ANNOUNCE_S)
        finally:
            self._announcing = None

    async def _rows(self, name: str, /, **values: object) -> list[Row]:
        async with self._line:
            return await asyncio.wait_for(self._connection.rows(name, **values), _ANSWER_S)

    def _pause_s(self) -> float:
        pause_s = min(self._poll_s * 2.0**self._failures, max(self._poll_s, _MOST_BACKOFF_S))
        return pause_s * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - it is not a secret

    def _set_timer(self, delay_s: float) -> None:
        """Bring the next turn forward to within `delay_s` seconds."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + delay_s:
                return
            self._timer.cancel()
        self._timer = loop.call_later(delay_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._due.set()

    async def _turn(self) -> None:
        """Ask what can be claimed, and wake as many agents as there are tasks for."""
        try:
            await self._poll()
        except Exception as error:  # noqa: BLE001 - whatever it is, polling goes on
            if not self._failures:
                log.warning("cannot look for tasks to claim, trying again: %r", error)
            self._failures = min(self._failures + 1, 10)
        else:
            if self._failures:
                log.warning("looking for tasks to claim works again")
            self._failures = 0
        while self._woken:
            for _ in range(min(_WAKE_AT_ONCE, len(self._woken))):
                resolve(self._woken.popleft(), True)
            if self._woken:
                await asyncio.sleep(_WAKE_PAUSE_S)

    async def _poll(self) -> None:
        """Ask what can be claimed, and choose the agents to wake."""
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        scopes = self._queues.next_scopes(_MOST_SCOPES)
        (row,) = await self._rows("claimable", servings=_encoded(scopes), front=self._front)
        answered_at = loop.time()
        self._turn_s = min(answered_at - asked_at, _LONGER * self._turn_s)
        self._rested_at = answered_at + min(_MOST_REST_S, _REST * self._turn_s)
        groups, unfinished = row["claimable"], row["unfinished"]
        for number in {number for numbers, _ in groups for number in numbers}:
            self._found(scopes[number])
        self._passed = 0
        self._woken += self._queues.take(scopes, groups, unfinished)


def _encoded(scopes: Sequence[Scope]) -> str:
    return json.dumps(
        [
            {"path": scope.path, "lifetime_s": scope.lifetime_s, "offers": scope.offers}
            | ({"without": scope.without} if scope.without else {})
            for scope in scopes
        ]
    )
