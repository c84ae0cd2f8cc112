"""Claims from the front. The tasks in its lists were leased in PostgreSQL before.

When many claims come, the pool pops more than they ask for, and answers most claims at once from a
buffer (see `buffer`). Claims that find it empty wait for a pop, and share it with all claims that
come meanwhile (see `popper`). If anything fails, a claim gets no task here, without delay, and goes
to PostgreSQL instead.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from taskq.db.connections import Database
from taskq.db.stored_json import why_unreadable_text
from taskq.dispatch.campaign_cache import CampaignCache
from taskq.dispatch.campaign_faults import failure
from taskq.dispatch.endings import cancel
from taskq.dispatch.fair_share import Scope
from taskq.front.address import FrontAddress
from taskq.front.breaker import Breaker
from taskq.front.buffer import KEEP_S, Buffer, Callback, Claim, Replay
from taskq.front.entries import POOL_S, Entry
from taskq.front.health import FrontCounters, Health
from taskq.front.popper import EntryCheck, Popper
from taskq.front.redis import RedisLink
from taskq.front.state import StateCache
from taskq.model.loop_faults import LoopFaults
from taskq_agent.protocol import Task

log = logging.getLogger(__name__)

#: Connections for pops: pops under way at a time.
POPS_AT_ONCE: Final = 2


class Pool:
    """Claims of one asyncio loop from the front of one queue."""

    def __init__(
        self, database: Database, address: FrontAddress, campaign_cache: CampaignCache
    ) -> None:
        """Open nothing yet.

        campaign_cache: receives the terms of a campaign before the first of its tasks is popped.
        """
        self.counters = FrontCounters()
        free = [RedisLink(address) for _ in range(POPS_AT_ONCE)]
        probe_link = RedisLink(address)
        self._links = (*free, probe_link)
        self._state_cache = StateCache(database, self._renewed, campaign_cache)
        self._health = Health(
            self._state_cache, probe_link, free, self.counters, failed=self._failed
        )
        self._entry_check = EntryCheck(self._state_cache, self._health, self.counters)
        self._opened = self._entry_check.opened
        self._popper = Popper(
            self._state_cache,
            self._health,
            free,
            self.counters,
            opened=self._opened,
            resolve=self._resolve,
        )
        self._served = self._popper.served
        self._replay = Replay()
        self._pending: dict[int, Claim] = {}
        self._background: list[asyncio.Task[None]] = []

    @property
    def breaker(self) -> Breaker:
        """The circuit breaker, which says whether the front is in use."""
        return self._health.breaker

    @property
    def depth(self) -> int:
        """Entries in the lists that this gateway uses, as of its last look at each."""
        return self._health.depths.total

    @property
    def pool_s(self) -> float:
        """Seconds for which a task stays leased to the pool."""
        state = self._state_cache.state
        return POOL_S if state is None else state.pool_s

    async def start(self) -> None:
        """Start the background tasks; before that, claims find no tasks."""
        loops = (self._state_cache.keep(), self._health.keep(), self._tidy())
        self._background = [asyncio.create_task(loop) for loop in loops]

    async def close(self) -> None:
        """Answer waiting claims without tasks, finish pops under way, and disconnect."""
        await cancel(self._background)
        await self._popper.close()
        self._give_back(self._served)
        for link in self._links:
            await link.close()
        await self._state_cache.close()

    def has_entries(self, scope: Scope) -> bool:
        """Return whether a scope seems to have entries; if not, note that they are wanted."""
        now = time.monotonic()
        order = self._state_cache.campaign_order(scope, now)
        if order is None:
            return False
        known = self._health.depths if self.breaker.closed else ()
        campaigns, _ = order.excluding(scope.without)
        for campaign in campaigns:
            if campaign in known or self._served.get(campaign):
                return True
        return bool(campaigns) and self._health.offers(campaigns[0], now)

    def submit(self, session: int, lease: str, want: int, scope: Scope, callback: Callback) -> bool:
        """Claim; return False if there seem to be no entries: then claim in PostgreSQL.

        callback: gets up to `want` tasks of one campaign, at once or later; if it gets none, claim
        in PostgreSQL. A session's last claim, if repeated with its lease id, gets the same tasks
        for as long as they may be handed out. The payloads are JSON text, see `open_entry`.
        """
        pending = self._pending.get(session)
        if pending is not None and pending.lease == lease:
            pending.callbacks.append(callback)
            return True
        now = time.monotonic()
        known = self._replay.get(session, lease, now)
        if known is not None:
            _run_callbacks([callback], self._entry_check.tasks(known))
            return True
        order = self._state_cache.campaign_order(scope, now)
        # No other campaign is tried: campaigns without entries would lose their shares.
        campaign = None if order is None else order.next(scope.without)
        if campaign is None:
            self.counters.misses += 1
            return False
        buffer = self._served.get(campaign)
        if buffer is None:
            buffer = self._served[campaign] = Buffer(campaign, now)
        share = buffer.claim(want, now, self._opened) if buffer and not buffer.claims else None
        if share:
            self._hand_out(session, lease, share, [callback])
            if buffer.is_low():
                self._popper.soon()
        elif self._popper.is_closed or not self._health.offers(campaign, now):
            self.counters.misses += 1
            return False
        else:
            claim = self._pending[session] = Claim(session, lease, want, callback)
            buffer.claims.append(claim)
            self._popper.soon()
        return True

    def _resolve(self, claim: Claim, share: Sequence[Entry]) -> None:
        """Answer a claim that has waited."""
        if self._pending.get(claim.session) is claim:
            del self._pending[claim.session]
        callbacks, claim.callbacks = claim.callbacks, []
        if share:
            self._hand_out(claim.session, claim.lease, share, callbacks)
        else:
            self.counters.misses += 1
            _run_callbacks(callbacks, [])

    def _hand_out(
        self, session: int, lease: str, share: Sequence[Entry], callbacks: Iterable[Callback]
    ) -> None:
        readable = [entry for entry in share if self._is_readable(entry, session)]
        if not readable:
            self.counters.misses += 1
            _run_callbacks(callbacks, [])
            return
        self.counters.hits += 1
        self._replay.put(session, lease, readable)
        _run_callbacks(callbacks, [entry.task for entry in readable])

    def _is_readable(self, entry: Entry, session: int) -> bool:
        """Return whether agents can read a payload; if not, its task fails, as in `Exchanges`."""
        text = bytes(cast("Any", entry.task.payload))  # JSON text, see `open_entry`
        why = why_unreadable_text(text)
        if why is not None:
            self._state_cache.fail(entry.task, failure(entry.task, session, why))
        return why is None

    async def _tidy(self) -> None:
        """Give back the entries of buffers that nobody claims from, until cancelled."""
        faults = LoopFaults(log, "the return of leases that nobody claims")
        while True:
            await asyncio.sleep(KEEP_S)
            since = time.monotonic() - KEEP_S
            with faults.noted():
                idle = [
                    campaign for campaign, buffer in self._served.items() if buffer.is_idle(since)
                ]
                self._give_back(idle)
                for campaign in idle:
                    del self._served[campaign]

    def _give_back(self, campaigns: Iterable[int]) -> None:
        for campaign in campaigns:
            self._state_cache.give_back(self._entry_check.tasks(self._served[campaign].emptied()))

    def _renewed(self) -> None:
        """Give back all entries of the old epoch: a new one has begun."""
        self._give_back(self._served)
        self._health.renew()

    def _failed(self) -> None:
        """Let the popper answer the claims that wait."""
        self._popper.soon()


def _run_callbacks(callbacks: Iterable[Callback], tasks: list[Task]) -> None:
    for callback in callbacks:
        try:
            callback(tasks)
        except Exception:  # noqa: PERF203  # others share the pop, and must not suffer from it
            log.exception("tasks could not be handed over")
