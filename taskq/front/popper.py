"""Pops shared by the claims that find a buffer empty, and the check of popped entries."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from taskq.front.buffer import Buffer, Claim, Open
from taskq.front.entries import Entry, FrontState, open_entry
from taskq.front.health import FrontCounters, Health
from taskq.front.redis import FrontDown, RedisLink
from taskq.front.state import StateCache
from taskq_agent.protocol import Task

log = logging.getLogger(__name__)

#: Lists in one pop.
MOST_LISTS: Final = 64

#: Answers a claim that has waited, with the entries that it got.
Resolve: TypeAlias = Callable[[Claim, Sequence[Entry]], None]

#: Forged entries in a row after which the front is not used for a while.
MOST_FORGED: Final = 16


class Popper:
    """Pops for waiting claims and into buffers; one pop at a time on each connection."""

    def __init__(
        self,
        state_cache: StateCache,
        health: Health,
        free: list[RedisLink],
        counters: FrontCounters,
        *,
        opened: Open,
        resolve: Resolve,
    ) -> None:
        """free: the connections without a pop under way; each pop takes one and puts it back."""
        self.served: dict[int, Buffer] = {}
        self.is_closed = False
        self._state_cache = state_cache
        self._health = health
        self._free = free
        self._links = len(free)
        self._counters = counters
        self._opened = opened
        self._resolve = resolve
        self._due = False
        self._under_way: set[asyncio.Task[None]] = set()

    def soon(self) -> None:
        """Pop what is missing, after everything that is ready to run now.

        So claims that arrive together share a pop.
        """
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._go)

    async def close(self) -> None:
        """Answer waiting claims without tasks, and finish pops under way."""
        self.is_closed = True
        self._dismiss()
        if self._under_way:
            await asyncio.wait(self._under_way)

    def _go(self) -> None:
        self._due = False
        state = self._state_cache.state
        if state is None or not self._health.breaker.closed or self.is_closed:
            self._dismiss()
            return
        missing = {campaign: buffer.missing() for campaign, buffer in self.served.items()}
        counts = [(campaign, count) for campaign, count in missing.items() if count][:MOST_LISTS]
        if not counts:
            return
        link = next((link for link in self._free if link.connected), None)
        if link is None:
            if len(self._free) == self._links:  # no pop is under way that would serve them
                self._dismiss()
            return
        self._free.remove(link)
        now = time.monotonic()
        for campaign, _ in counts:
            self.served[campaign].popping = True
            self.served[campaign].learn(now)
        round_ = asyncio.create_task(self._round(link, state, counts))
        self._under_way.add(round_)
        round_.add_done_callback(self._under_way.discard)

    def _dismiss(self) -> None:
        """Answer waiting claims without tasks, except those with a pop under way for them."""
        for served in self.served.values():
            while served.claims and not served.popping:
                self._resolve(served.claims.popleft(), ())

    async def _round(
        self, link: RedisLink, state: FrontState, counts: Sequence[tuple[int, int]]
    ) -> None:
        """Pop on a connection, answer claims, then let the next pop begin."""
        began = time.monotonic()
        waiting = {campaign: len(self.served[campaign].claims) for campaign, _ in counts}
        try:
            popped = await self._health.pop(link, state, counts)
            for (campaign, _), found in zip(counts, popped, strict=False):
                self.served[campaign].put(found.entries)
                self._counters.popped += len(found.entries)
        except FrontDown as error:
            self._health.fail(error, began)
        except Exception as error:
            log.exception("a defect in taking tasks from the front")
            self._health.fail(error, began)
        finally:
            for campaign, count in waiting.items():
                self._answer(self.served[campaign], count)
            self._free.append(link)
            self.soon()  # after the answered agents have claimed again

    def _answer(self, served: Buffer, waiting: int) -> None:
        """Answer the claims that this pop was made for, from the buffer that it filled."""
        now = time.monotonic()
        served.popping = False
        for _ in range(min(waiting, len(served.claims))):
            claim = served.claims.popleft()
            self._resolve(claim, served.claim(claim.want, now, self._opened))


class EntryCheck:
    """The check of popped entries by the secret of the epoch."""

    def __init__(self, state_cache: StateCache, health: Health, counters: FrontCounters) -> None:
        self._state_cache = state_cache
        self._health = health
        self._counters = counters
        self._in_a_row = 0

    def opened(self, raw: bytes, campaign: int, now: float) -> Entry | None:
        """Return an entry that may be handed out; None if it is not genuine, or too old.

        The lease of an entry that is too old is given back, since no refiller has withdrawn it in
        time.
        """
        state = self._state_cache.state
        entry = None if state is None else open_entry(raw, state)
        # An entry moved from another list may be of a campaign that the agent must not serve.
        if entry is None or entry.task.campaign != campaign:
            self._counters.forged += 1
            self._in_a_row += 1
            if self._in_a_row % MOST_FORGED == 0:
                self._health.fail(FrontDown("PostgreSQL has not made the popped entries"), now)
            return None
        self._in_a_row = 0
        if entry.until <= now:
            self._counters.stale += 1
            self._state_cache.give_back([entry.task])
            return None
        return entry

    def tasks(self, entries: Iterable[bytes]) -> list[Task]:
        """Return the tasks of the genuine entries, of any age."""
        state = self._state_cache.state
        opened = [open_entry(raw, state) for raw in entries] if state is not None else []
        return [entry.task for entry in opened if entry is not None]
