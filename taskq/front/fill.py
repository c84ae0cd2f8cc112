"""Filling of the lists of one epoch, by the refiller that acts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Sequence
from itertools import chain
from typing import Final

from taskq.db.catalogue import array
from taskq.front.lease_returns import LeaseReturns, Rows
from taskq.front.levels import Levels
from taskq.front.lists import Lists, push_chunks
from taskq.front.redis import FrontDown

#: Least seconds between surveys, however often a gateway signals.
_LEAST_PAUSE_S: Final = 0.05
#: Most seconds between surveys while there is something to fill.
_MOST_PAUSE_S: Final = 0.1
#: Longest wait for a signal, so that a refiller that is to end notices soon.
_WAIT_S: Final = 0.25
_ANOTHER: Final = "it was emptied, or is of another epoch"


class FrontDoubtful(Exception):
    """Redis does not hold what was pushed there; a new epoch has to begin."""


class Filler:
    """Keeps the lists of one epoch at their target lengths.

    Order matters: a lease is committed in PostgreSQL before its entry is pushed, and an entry is
    taken out before its lease is given back. What gets lost in between waits again after the pool's
    deadline.
    """

    def __init__(
        self, rows: Rows, lists: Lists, levels: Levels, lease_returns: LeaseReturns
    ) -> None:
        self.lists = lists
        self.levels = levels
        self._lease_returns = lease_returns
        #: Whether a survey has found Redis in this epoch.
        self.seen = False
        self._rows = rows
        self._clock = asyncio.get_running_loop().time
        self._surveyed_at = float("-inf")

    async def inherit(self) -> None:
        """Take over the lists that an earlier refiller of this epoch has filled."""
        campaigns = await self.lists.known()
        found = await self.lists.survey(campaigns)
        if found is None:
            return  # the next survey raises
        now = self._clock()
        for campaign, length in zip(campaigns, found.lengths, strict=True):
            self.levels.inherit(campaign, length, now)
        self.levels.wanted(found.wanted, now)

    async def work(self, seconds: float, ending: asyncio.Event) -> None:
        """Survey and fill for this long; raise `FrontDoubtful` if a survey finds it necessary."""
        until = self._clock() + seconds
        while self._clock() < until and not ending.is_set():
            if self._clock() >= self._surveyed_at + _MOST_PAUSE_S:
                await self.survey()
            if not await self._fill():
                left_s = max(_LEAST_PAUSE_S, until - self._clock())
                await self.lists.wait(min(left_s, _WAIT_S))
                await asyncio.sleep(self._surveyed_at + _LEAST_PAUSE_S - self._clock())
                self._surveyed_at = float("-inf")

    async def survey(self) -> None:
        """Measure the lists and the demand; withdraw old entries, forget unused lists."""
        campaigns = self.levels.campaigns()
        found = await self.lists.survey(campaigns)
        self._surveyed_at = now = self._clock()
        if found is None:
            raise FrontDoubtful(_ANOTHER)
        self.seen = True
        for campaign, length in zip(campaigns, found.lengths, strict=True):
            if not self.levels[campaign].seen(length, now):
                raise FrontDoubtful(f"campaign {campaign} has more entries than were pushed")
        self.levels.wanted(found.wanted, now)
        doubtful = self.levels.doubtful()
        if doubtful:
            rows = await self._rows("frontable", campaigns=array(doubtful))
            self.levels.servable([row["frontable"] for row in rows], now)
        await self.withdraw(self.levels.old(now))
        unused = self.levels.forget(now)
        if unused:
            await self.lists.forget(unused)

    async def withdraw(self, campaigns: Collection[int]) -> None:
        """Empty some lists, and give all leases of their entries back in one statement."""
        try:
            for campaign in campaigns:
                if campaign in self.levels:
                    async for fences in self.lists.withdraw(campaign):
                        self._lease_returns.add(fences)
                    self.levels[campaign].clear()
        finally:
            await self._lease_returns.give_back()

    async def close(self, campaigns: Collection[int]) -> None:
        """Empty the lists of campaigns whose tasks must not be handed out; fill them no more."""
        for campaign in campaigns:
            if campaign in self.levels:
                self.levels[campaign].servable = False
        await self.withdraw(campaigns)

    def to_json(self) -> str:
        """Return the lengths and ranks of the lists as JSON for `keep_front`."""
        return json.dumps(self.levels.as_record())

    async def _fill(self) -> bool:
        """Lease and push some tasks of one campaign; return False if no list needs entries."""
        lease = self.levels.next(self._clock())
        if lease is None:
            return False
        level = self.levels[lease.campaign]
        (row,) = await self._rows(
            "lease_ahead",
            epoch=self.lists.state.epoch,
            campaign=lease.campaign,
            most=lease.most,
            before=lease.ahead,
        )
        if not row["entries"]:
            if lease.ahead is None:
                level.servable = False
            else:
                level.overtaken = False
            return True
        entries = [entry.encode() for entry in row["entries"]]
        first, now = lease.ahead is not None, self._clock()
        # Count them before the push, which may succeed though its answer is lost: a list must never
        # be longer than is known here.
        level.put(len(entries), row["rank"], now, size=sum(map(len, entries)), first=first)
        await self._push(lease.campaign, level.low_water(now), entries, first=first)
        return True

    async def _push(
        self, campaign: int, low_water: int, entries: Sequence[bytes], *, first: bool
    ) -> None:
        left = push_chunks(entries)
        if first:
            left.reverse()
        pushed = False
        try:
            while left and await self.lists.push(campaign, low_water, left[0], first=first):
                left.pop(0)
            pushed = not left
        except FrontDown:
            if not self.lists.connected:
                left.pop(0)  # it may have been pushed nevertheless
            raise
        finally:
            self._lease_returns.add(self.lists.fences(chain.from_iterable(left)))
            await self._lease_returns.give_back()
        if not pushed:
            raise FrontDoubtful(_ANOTHER)
