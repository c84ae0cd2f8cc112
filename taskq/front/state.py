"""Cache of the front's state and of the orders of campaigns, refreshed in the background.

No claim waits for a statement here: cached values are used while they are refreshed, and also while
PostgreSQL does not answer. So claims go on from the front while the database restarts.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from taskq.db.catalogue import array
from taskq.db.connections import Database, Row
from taskq.dispatch.campaign_cache import CampaignCache
from taskq.dispatch.fair_share import MOST_CAMPAIGNS, CampaignOrder, Scope
from taskq.front.entries import FrontState
from taskq.front.lease_returns import LeaseReturns
from taskq.model.errors import NotFound, TaskqError
from taskq_agent.protocol import Task

log = logging.getLogger(__name__)

#: Seconds between refreshes of the state.
STATE_S: Final = 5.0
#: Least seconds between them, also if the state is doubted or unknown.
_LEAST_PAUSE_S: Final = 1.0
#: Seconds without use after which a scope is no longer refreshed, and after which it is forgotten.
_USED_S: Final = 5.0
_KEPT_S: Final = 60.0
#: Scopes refreshed in one turn, and scopes kept. With more scopes than a turn refreshes, each is
#: refreshed less often.
_MOST_REFRESHED: Final = 32
_MOST_KEPT: Final = 1_000
#: Least seconds between turns, so that new scopes share a turn.
_TURN_S: Final = 0.05
_ANSWER_S: Final = 10.0
#: Seconds after which an order is used only while PostgreSQL does not answer.
_OLD_S: Final = 10.0
_CLOSE_S: Final = 2.0
#: Failures of tasks with unreadable payloads to report at a time; more expire with their leases.
_MOST_FAILURES: Final = 1_000


class _Known:
    """The order of campaigns of a scope, and when it was used last."""

    __slots__ = ("order", "used_at")

    def __init__(self, now: float) -> None:
        self.order = CampaignOrder()
        self.used_at = now


class StateCache:
    """The state of the front, and the order of campaigns for each scope in use."""

    def __init__(
        self, database: Database, renewed: Callable[[], None], campaign_cache: CampaignCache
    ) -> None:
        """Open nothing yet.

        renewed: called when another epoch has begun, while `state` still has the old one.
        campaign_cache: receives the terms of campaigns before anybody claims in them.
        """
        self.state: FrontState | None = None
        self._connection = database.dedicated_async_connection()
        self._renewed = renewed
        self._campaign_cache = campaign_cache
        self._known: dict[Scope, _Known] = {}
        self._due = asyncio.Event()
        self._asked_at = float("-inf")
        self._doubted = False
        self._failing = False
        self._lease_returns = LeaseReturns(self._rows)
        self._failures: list[tuple[int, str]] = []

    def campaign_order(self, scope: Scope, now: float) -> CampaignOrder | None:
        """Return the cached order of campaigns of a scope; None if there is none yet."""
        scope = scope.drawn()
        known = self._known.get(scope)
        if known is None:
            if len(self._known) >= _MOST_KEPT:  # drop the scope that was used longest ago
                del self._known[min(self._known, key=lambda kept: self._known[kept].used_at)]
            self._known[scope] = _Known(now)
            self._due.set()
            return None
        known.used_at = now
        if now - known.order.drawn_at > _OLD_S and not self._failing:
            self._due.set()  # it was not used for a while, and campaigns may have changed
            return None
        return known.order if known.order.campaigns else None

    def doubt(self) -> None:
        """Refresh the state soon: Redis has another epoch."""
        self._doubted = True
        self._due.set()

    async def keep(self) -> None:
        """Refresh the state and the orders in use, until cancelled."""
        while True:
            self._due.clear()
            try:
                await self._turn()
            except (TaskqError, asyncio.TimeoutError) as error:
                if not self._failing:
                    why = str(error) or "no answer in time"
                    log.warning("cannot refresh the state of the front, trying again: %s", why)
                self._failing = True
            except Exception:
                log.exception("refreshing the state of the front failed")
            else:
                self._failing = False
            await asyncio.sleep(_TURN_S)
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._due.wait(), _LEAST_PAUSE_S)

    def give_back(self, tasks: Sequence[Task]) -> None:
        """Give back the leases of tasks that were popped and not handed out, soon."""
        if tasks:
            self._lease_returns.add(tasks)
            self._due.set()

    def fail(self, task: Task, report: str) -> None:
        """Report soon that a popped task has failed; its lease expires if PostgreSQL is away."""
        if len(self._failures) < _MOST_FAILURES:
            self._failures.append((task.campaign, report))
        self._due.set()

    async def _report_failures(self) -> None:
        failures, self._failures = self._failures, []
        if failures:
            reports = f"[{','.join(report for _, report in failures)}]"
            campaigns = array(campaign for campaign, _ in failures)
            await self._rows("settle_many", campaigns=campaigns, reports=reports)

    async def close(self) -> None:
        """Give back the remaining leases, if PostgreSQL answers, and close the connection."""
        with suppress(TaskqError, asyncio.TimeoutError):
            await asyncio.wait_for(self._lease_returns.give_back(), _CLOSE_S)
        await self._connection.close()

    async def _turn(self) -> None:
        now = time.monotonic()
        doubtful = self._doubted or self.state is None
        if now - self._asked_at >= (_LEAST_PAUSE_S if doubtful else STATE_S):
            await self._ask_state(now)
        for scope, known in list(self._known.items()):
            if now - known.used_at > _KEPT_S:
                del self._known[scope]
        stale = [
            (known.order.drawn_at, number, scope, known.order)
            for number, (scope, known) in enumerate(self._known.items())
            if now - known.used_at <= _USED_S and not known.order.fresh(now)
        ]
        for _, _, scope, order in sorted(stale)[:_MOST_REFRESHED]:
            await self._draw(scope, order)
        await self._report_failures()
        await self._lease_returns.give_back()

    async def _ask_state(self, now: float) -> None:
        (row,) = await self._rows("front_state")
        state = FrontState.from_row(row, now) if row["epoch"] else None
        self._asked_at, self._doubted = now, False
        if (self.state and self.state.epoch) != (state and state.epoch):
            self._renewed()
        self.state = state

    async def _draw(self, scope: Scope, order: CampaignOrder) -> None:
        try:
            rows = await self._rows(
                "servable",
                path=scope.path,
                lifetime_s=scope.lifetime_s,
                offers=list(scope.offers),
                most=MOST_CAMPAIGNS,
            )
        except NotFound:
            rows = []
        for row in rows:
            if row["campaign_id"] not in self._campaign_cache:
                await self._describe(row["campaign_id"])
        order.draw(rows, time.monotonic())

    async def _describe(self, campaign: int) -> None:
        """Cache the terms of a campaign now: later, PostgreSQL may be away."""
        for row in await self._rows("campaign_by_id", campaign=campaign):
            self._campaign_cache.put(row)

    async def _rows(self, name: str, /, **values: object) -> list[Row]:
        return await asyncio.wait_for(self._connection.rows(name, **values), _ANSWER_S)
