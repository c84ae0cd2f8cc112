"""Health of Redis as one gateway sees it, and upkeep of the connections to it.

Looks and probes run in the background on a connection of their own, so that no claim waits for
them.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from taskq.front.breaker import Breaker
from taskq.front.depths import Depths
from taskq.front.entries import FrontState
from taskq.front.lists import Popped, pop
from taskq.front.redis import FrontDown, RedisLink
from taskq.front.state import StateCache
from taskq.model.counters import counter

log = logging.getLogger(__name__)


@dataclass(slots=True)
class FrontCounters:
    """Counters of one gateway; they only grow."""

    hits: int = counter("Claims served from the front")
    misses: int = counter("Claims that found nothing there and were made in PostgreSQL")
    popped: int = counter("Entries taken from the lists")
    stale: int = counter("Entries that were too old to be handed out")
    forged: int = counter("Entries that PostgreSQL did not make, or made for another campaign")
    outdated: int = counter("Pops in an epoch that had ended")
    errors: int = counter("Pops and probes that failed")


class Health:
    """The state of Redis, learned from every pop and from looks of its own.

    breaker: whether to use Redis. depths: the known depths of its lists.
    """

    def __init__(
        self,
        state_cache: StateCache,
        probe_link: RedisLink,
        idle: Sequence[RedisLink],
        counters: FrontCounters,
        *,
        failed: Callable[[], None],
    ) -> None:
        """idle: connections to keep open while they are in it. failed: called after a failure."""
        self.breaker = Breaker(random.random)
        self.depths = Depths()
        self._state_cache = state_cache
        self._probe_link = probe_link
        self._idle = idle
        self._counters = counters
        self._failed = failed
        self._wake = asyncio.Event()

    def offers(self, campaign: int, now: float) -> bool:
        """Return whether a campaign seems to have entries; if not, note that they are wanted."""
        if not self.breaker.closed:
            return False
        if campaign in self.depths:
            return True
        if self.depths.want(campaign, now):
            self._wake.set()
        return False

    async def pop(
        self, link: RedisLink, state: FrontState, counts: Sequence[tuple[int, int]]
    ) -> list[Popped]:
        """Pop entries and note how many are left; return none if Redis has another epoch."""
        popped = await pop(link, state, counts)
        if popped is None:
            self._counters.outdated += 1
            self.depths.clear()
            self._state_cache.doubt()
            return []
        for (campaign, _), popped_list in zip(counts, popped, strict=True):
            self.depths.note(campaign, popped_list.left)
        return popped

    def fail(self, error: Exception, began: float) -> None:
        """Note a failure of an operation begun then; stop using the front for a while."""
        self._counters.errors += 1
        if self.breaker.fail(time.monotonic(), began):
            log.warning("the front fails, claims go on without it: %s", error)
            self.depths.clear()  # the state of the lists is unknown now
        self._wake.set()  # a connection may have to be reopened
        self._failed()

    def renew(self) -> None:
        """Forget the depths: a new epoch has begun."""
        self.depths.clear()
        self._wake.set()

    async def keep(self) -> None:
        """Look at wanted lists, and probe a front that has failed, until cancelled."""
        while True:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._pause_s())
            self._wake.clear()
            began = time.monotonic()
            try:
                await self._look(began)
            except FrontDown as error:
                self.fail(error, began)
            except Exception as error:
                log.exception("a defect in looking at the front")
                self.fail(error, began)

    def _pause_s(self) -> float | None:
        """Return the seconds until the next look; None means until woken."""
        now = time.monotonic()
        if self._state_cache.state is None:
            return None
        return self.depths.wait_s(now) if self.breaker.closed else self.breaker.wait_s(now)

    async def _look(self, now: float) -> None:
        state = self._state_cache.state
        probing = state is not None and self.breaker.probe(now)
        if state is None or not (probing or self.breaker.closed):
            return
        for link in (self._probe_link, *self._idle):
            if probing:
                await link.close()  # the cause of the failure may affect every connection
            await link.connect()  # here, so that no claim has to wait for it
        wanted = self.depths.due(now)
        if wanted or probing:
            await self.pop(self._probe_link, state, [(campaign, 0) for campaign in wanted])
        if probing and self.breaker.succeed(time.monotonic()):
            level = logging.WARNING if self._counters.errors else logging.INFO
            log.log(level, "the front works")
