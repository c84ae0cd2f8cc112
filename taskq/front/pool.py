"""Claims from the front: what is popped there has been leased in PostgreSQL before.

Where many claims come, more is popped than they ask for, and most of them are answered at once out
of the hand (see `hand`). Those that find it empty wait for a pop, which they share with all who
come meanwhile (see `rounds`). Whatever goes wrong, a claim is told at once that there is nothing
here, and is made in PostgreSQL instead.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from typing import Final

from taskq.db.connections import Database
from taskq.dispatch.campaign_cache import CampaignCache
from taskq.dispatch.closing import cancel
from taskq.dispatch.fair_share import Scope
from taskq.front.address import FrontAddress
from taskq.front.breaker import Breaker
from taskq.front.buffer import KEEP_S, CampaignBuffer, Claim, Tell
from taskq.front.entries import POOL_S, Entry
from taskq.front.health import FrontCounters, Health
from taskq.front.popper import EntryCheck, Popper
from taskq.front.redis import RedisLink
from taskq.front.replay import Replay
from taskq.front.state import StateCache
from taskq_agent.protocol import Task

log = logging.getLogger(__name__)

#: Pops under way at a time.
LINES: Final = 2


class Pool:
    """Claims of one asyncio loop from the front of one queue."""

    def __init__(self, database: Database, address: FrontAddress, described: CampaignCache) -> None:
        """Open nothing yet.

        described: gets what the tasks of a campaign share, before the first of them is popped.
        """
        self.tally = FrontCounters()
        free = [RedisLink(address) for _ in range(LINES)]
        scout = RedisLink(address)
        self._links = (*free, scout)
        self._outlook = StateCache(database, self._renewed, described)
        self._watch = Health(self._outlook, scout, free, self.tally, failed=self._failed)
        self._sieve = EntryCheck(self._outlook, self._watch, self.tally)
        self._opened = self._sieve.opened
        self._rounds = Popper(
            self._outlook,
            self._watch,
            free,
            self.tally,
            opened=self._opened,
            settle=self._settle,
        )
        self._served = self._rounds.served
        self._repeats = Replay()
        self._pending: dict[int, Claim] = {}
        self._keepers: list[asyncio.Task[None]] = []

    @property
    def breaker(self) -> Breaker:
        """Whether the front is in use."""
        return self._watch.breaker

    @property
    def depth(self) -> int:
        """Entries in the lists that this gateway uses, when it last looked."""
        return self._watch.depths.total

    @property
    def pool_s(self) -> float:
        """Seconds for which a task stays leased to the pool."""
        state = self._outlook.state
        return POOL_S if state is None else state.pool_s

    async def start(self) -> None:
        """Begin to look after the front, in the background; claims find nothing until then."""
        keepers = (self._outlook.keep(), self._watch.keep(), self._tidy())
        self._keepers = [asyncio.create_task(keeper) for keeper in keepers]

    async def close(self) -> None:
        """Tell those who wait that there is nothing, finish what is under way, and disconnect."""
        await cancel(self._keepers)
        await self._rounds.close()
        self._give_back(self._served)
        for link in self._links:
            await link.close()
        await self._outlook.close()

    def stocked(self, serving: Scope) -> bool:
        """Say whether there seem to be entries for a serving; if not, they are wanted."""
        now = time.monotonic()
        choice = self._outlook.choice(serving, now)
        if choice is None:
            return False
        known = self._watch.depths if self.breaker.closed else ()
        campaigns, _ = choice.but(serving.without)
        for campaign in campaigns:
            served = self._served.get(campaign)
            if campaign in known or (served is not None and served.hand):
                return True
        return bool(campaigns) and self._watch.offers(campaigns[0], now)

    def submit(self, session: int, lease: str, want: int, serving: Scope, tell: Tell) -> bool:
        """Claim, or return False if there seems to be nothing: then claim in PostgreSQL.

        `tell` gets up to `want` tasks of one campaign, at once or later; none of them: claim in
        PostgreSQL. A session's last claim, if repeated with its lease id, gets the same tasks for
        as long as they may be handed out. The payloads are JSON text, see `open_entry`.
        """
        pending = self._pending.get(session)
        if pending is not None and pending.lease == lease:
            pending.tells.append(tell)
            return True
        now = time.monotonic()
        known = self._repeats.get(session, lease, now)
        if known is not None:
            _tell([tell], self._sieve.tasks(known))
            return True
        choice = self._outlook.choice(serving, now)
        # It tries no other campaign: that would give away the shares of those that lack entries.
        campaign = None if choice is None else choice.next(serving.without)
        if campaign is None:
            self.tally.misses += 1
            return False
        served = self._served.get(campaign)
        if served is None:
            served = self._served[campaign] = CampaignBuffer(campaign, now)
        hand = served.hand
        share = hand.claim(want, now, self._opened) if hand and not served.claims else None
        if share:
            self._hand_out(session, lease, share, [tell])
            if hand.is_low():
                self._rounds.soon()
        elif self._rounds.closing or not self._watch.offers(campaign, now):
            self.tally.misses += 1
            return False
        else:
            claim = self._pending[session] = Claim(session, lease, want, tell)
            served.claims.append(claim)
            self._rounds.soon()
        return True

    def _settle(self, claim: Claim, share: Sequence[Entry]) -> None:
        """Tell a claim that has waited what it got."""
        if self._pending.get(claim.session) is claim:
            del self._pending[claim.session]
        tells, claim.tells = claim.tells, []
        if share:
            self._hand_out(claim.session, claim.lease, share, tells)
        else:
            self.tally.misses += 1
            _tell(tells, [])

    def _hand_out(
        self, session: int, lease: str, share: Sequence[Entry], tells: Iterable[Tell]
    ) -> None:
        self.tally.hits += 1
        self._repeats.put(session, lease, share)
        _tell(tells, [one.task for one in share])

    async def _tidy(self) -> None:
        """Give back what is in hand and nobody claims, until cancelled."""
        while True:
            await asyncio.sleep(KEEP_S)
            since = time.monotonic() - KEEP_S
            idle = [campaign for campaign, one in self._served.items() if one.is_idle(since)]
            self._give_back(idle)
            for campaign in idle:
                del self._served[campaign]

    def _give_back(self, campaigns: Iterable[int]) -> None:
        for campaign in campaigns:
            self._outlook.give_back(self._sieve.tasks(self._served[campaign].hand.emptied()))

    def _renewed(self) -> None:
        """Begin anew: there is another epoch."""
        self._give_back(self._served)
        self._watch.renew()

    def _failed(self) -> None:
        """See to those who wait."""
        self._rounds.soon()


def _tell(tells: Iterable[Tell], tasks: list[Task]) -> None:
    for tell in tells:
        try:
            tell(tasks)
        except Exception:  # noqa: PERF203  # the others who share a pop must not suffer from one
            log.exception("tasks could not be handed over")
