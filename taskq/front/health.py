"""Looking after the front: whether it works, and which lists hold something.

That is done in the background, by a connection of its own, so that no claim has to wait for it.
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


@dataclass(slots=True)
class FrontCounters:
    """Numbers that only grow.

    hits, misses: claims that got tasks, and that got none. popped: entries; of these stale: too old
    to be handed out, forged: not made by PostgreSQL, or in a list where they do not belong.
    refused: pops in another epoch than that of Redis. errors: pops and probes that failed.
    """

    hits: int = 0
    misses: int = 0
    popped: int = 0
    stale: int = 0
    forged: int = 0
    refused: int = 0
    errors: int = 0


log = logging.getLogger(__name__)


class Health:
    """What is known of Redis, from every pop and from looks of its own.

    breaker: whether to use it. depths: what its lists hold, as far as that is known.
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
        """idle: connections to be kept open while they are in there; failed: is called then."""
        self.breaker = Breaker(random.random)
        self.depths = Depths()
        self._state_cache = state_cache
        self._probe_link = probe_link
        self._idle = idle
        self._counters = counters
        self._failed = failed
        self._wake = asyncio.Event()

    def offers(self, campaign: int, now: float) -> bool:
        """Say whether there seem to be entries of a campaign; if not, they are wanted."""
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
        """Take entries as `pop` does, and note how many are left; nothing in another epoch."""
        popped = await pop(link, state, counts)
        if popped is None:
            self._counters.refused += 1
            self.depths.clear()
            self._state_cache.doubt()
            return []
        for (campaign, _), one in zip(counts, popped, strict=True):
            self.depths.note(campaign, one.left)
        return popped

    def fail(self, error: Exception, began: float) -> None:
        """Leave the front alone for a while, because of what was begun then."""
        self._counters.errors += 1
        if self.breaker.fail(time.monotonic(), began):
            log.warning("the front fails, claims go on without it: %s", error)
            self.depths.clear()  # nobody knows what has become of the lists
        self._wake.set()  # a connection may have to be opened again
        self._failed()

    def renew(self) -> None:
        """Begin anew: there is another epoch."""
        self.depths.clear()
        self._wake.set()

    async def keep(self) -> None:
        """Look at what is wanted, and probe a front that has failed, until cancelled."""
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
        """Return how long to wait before the next look; None: until something stirs."""
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
                await link.close()  # what broke one may have broken all
            await link.connect()  # no claim shall have to wait for that
        wanted = self.depths.due(now)
        if wanted or probing:
            await self.pop(self._probe_link, state, [(campaign, 0) for campaign in wanted])
        if probing and self.breaker.succeed(time.monotonic()):
            level = logging.WARNING if self._counters.errors else logging.INFO
            log.log(level, "the front works")
