"""What PostgreSQL says of the front and of the campaigns, refreshed in the background.

No claim waits for a statement here: what is known is used while it is asked anew, and also while
PostgreSQL does not answer. So claims go on from the front while the database restarts.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from taskq.db.connections import Database, Row
from taskq.dispatch.campaign_cache import CampaignCache
from taskq.dispatch.fair_share import MOST_CAMPAIGNS, CampaignOrder, Scope
from taskq.errors import NotFound, TaskqError
from taskq.front.entries import FrontState
from taskq.front.lease_returns import LeaseReturns
from taskq_agent.protocol import Task

log = logging.getLogger(__name__)

STATE_S: Final = 5.0
#: The state is asked for no more often than this, however much it is doubted, or missed.
_APART_S: Final = 1.0
#: Servings that were not used for so long are not refreshed, and at last forgotten.
_USED_S: Final = 5.0
_KEPT_S: Final = 60.0
#: Servings refreshed in one turn, and kept; where there are more, they are refreshed less often.
_MOST_REFRESHED: Final = 32
_MOST_KEPT: Final = 1_000
#: Turns are at least so far apart, so that what is new comes together.
_TURN_S: Final = 0.05
_ANSWER_S: Final = 10.0
#: An order older than this is used only while PostgreSQL does not answer.
_OLD_S: Final = 10.0
_LAST_WORD_S: Final = 2.0


class _Known:
    """A serving's choice, and when it was used last."""

    __slots__ = ("choice", "used_at")

    def __init__(self, now: float) -> None:
        self.choice = CampaignOrder()
        self.used_at = now


class StateCache:
    """The state of the front, and the order of campaigns for each serving in use."""

    def __init__(
        self, database: Database, renewed: Callable[[], None], described: CampaignCache
    ) -> None:
        """Open nothing yet.

        renewed: is called when another epoch has begun, while `state` still is of the old one.
        described: gets what is to be known of campaigns before anybody tries them.
        """
        self.state: FrontState | None = None
        self._line = database.dedicated_async_connection()
        self._renewed = renewed
        self._described = described
        self._known: dict[Scope, _Known] = {}
        self._due = asyncio.Event()
        self._asked_at = float("-inf")
        self._doubted = False
        self._failing = False
        self._returning = LeaseReturns(self._rows)

    def choice(self, serving: Scope, now: float) -> CampaignOrder | None:
        """Return the campaigns to try, as they were a moment ago; None if that is not known yet."""
        serving = serving.drawn()
        known = self._known.get(serving)
        if known is None:
            if len(self._known) >= _MOST_KEPT:  # whoever else is served is used all the time
                del self._known[min(self._known, key=lambda one: self._known[one].used_at)]
            self._known[serving] = _Known(now)
            self._due.set()
            return None
        known.used_at = now
        if now - known.choice.drawn_at > _OLD_S and not self._failing:
            self._due.set()  # it has not been used for a while, and campaigns may have changed
            return None
        return known.choice if known.choice.campaigns else None

    def doubt(self) -> None:
        """Ask for the state soon: Redis has another epoch."""
        self._doubted = True
        self._due.set()

    async def keep(self) -> None:
        """Keep all of it fresh, until cancelled."""
        while True:
            self._due.clear()
            try:
                await self._turn()
            except (TaskqError, asyncio.TimeoutError) as error:
                if not self._failing:
                    why = str(error) or "no answer in time"
                    log.warning("cannot look after the front, trying on: %s", why)
                self._failing = True
            except Exception:
                log.exception("looking after the front failed")
            else:
                self._failing = False
            await asyncio.sleep(_TURN_S)
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._due.wait(), _APART_S)

    def give_back(self, tasks: Sequence[Task]) -> None:
        """Let tasks that were popped and not handed out wait again, soon."""
        if tasks:
            self._returning.add(tasks)
            self._due.set()

    async def close(self) -> None:
        """Give back what there is, if PostgreSQL answers, and close the connection."""
        with suppress(TaskqError, asyncio.TimeoutError):
            await asyncio.wait_for(self._returning.give_back(), _LAST_WORD_S)
        await self._line.close()

    async def _turn(self) -> None:
        now = time.monotonic()
        doubtful = self._doubted or self.state is None
        if now - self._asked_at >= (_APART_S if doubtful else STATE_S):
            await self._ask_state(now)
        for serving, known in list(self._known.items()):
            if now - known.used_at > _KEPT_S:
                del self._known[serving]
        stale = [
            (known.choice.drawn_at, number, serving, known.choice)
            for number, (serving, known) in enumerate(self._known.items())
            if now - known.used_at <= _USED_S and not known.choice.fresh(now)
        ]
        for _, _, serving, choice in sorted(stale)[:_MOST_REFRESHED]:
            await self._draw(serving, choice)
        await self._returning.give_back()

    async def _ask_state(self, now: float) -> None:
        (row,) = await self._rows("front")
        state = FrontState.told(row, now) if row["epoch"] else None
        self._asked_at, self._doubted = now, False
        if (self.state and self.state.epoch) != (state and state.epoch):
            self._renewed()
        self.state = state

    async def _draw(self, serving: Scope, choice: CampaignOrder) -> None:
        try:
            rows = await self._rows(
                "servable",
                path=serving.path,
                lifetime_s=serving.lifetime_s,
                offers=list(serving.offers),
                most=MOST_CAMPAIGNS,
            )
        except NotFound:
            rows = []
        for row in rows:
            if row["campaign_id"] not in self._described:
                await self._describe(row["campaign_id"])
        choice.draw(rows, time.monotonic())

    async def _describe(self, campaign: int) -> None:
        """Learn what the tasks of a campaign share: later, PostgreSQL may be away."""
        for row in await self._rows("campaign_by_id", campaign=campaign):
            self._described.put(row)

    async def _rows(self, name: str, **values: object) -> list[Row]:
        return await asyncio.wait_for(self._line.rows(name, **values), _ANSWER_S)
