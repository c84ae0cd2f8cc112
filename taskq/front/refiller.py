"""The refiller: leases tasks ahead in PostgreSQL and puts them into the lists of a front.

Any number may run; in each term one of them acts, and when it goes another takes over and goes on
with the lists as they are. One that cannot reach Redis stands aside, for another may. Nothing that
happens to Redis ends it, nor anything that happens to PostgreSQL.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
import uuid
from contextlib import suppress
from typing import Final

from taskq.db.connections import Database, Row
from taskq.errors import TaskqError, Unavailable
from taskq.front.address import FrontAddress
from taskq.front.entries import POOL_S, FrontState
from taskq.front.fill import Filler, FrontDoubtful
from taskq.front.lease_returns import LeaseReturns
from taskq.front.levels import Levels
from taskq.front.lists import Lists
from taskq.front.redis import FrontDown, RedisLink

TERM_S: Final = 5.0
#: How often PostgreSQL is told and asked: while there is something in the lists, and while not.
KEEP_S: Final = 0.25
IDLE_S: Final = 0.5
#: Between two looks for higher priorities: so many times what one took, but no longer than this.
_LOOK_SHARE: Final = 20.0
_LONGEST_BLIND_S: Final = 5.0
STANDBY_S: Final = 1.0
#: An entry may be handed out in the first half of the pool's time; by then it should be long gone.
_FRESH_PART: Final = 0.25
#: Whoever has begun a new epoch in PostgreSQL is given so long to begin it in Redis.
_PATIENCE_S: Final = 2.0
#: Pushing a megabyte takes longer than what gateways do; a statement that takes longer hangs.
_PUSH_S: Final = 2.0
_STATEMENT_S: Final = 10.0
_BACKOFF_S: Final = 0.1
_MOST_BACKOFF_S: Final = 2.0
#: After so long without trouble, the next trouble is the first.
_CALM_S: Final = 5.0
_END_S: Final = 5.0

log = logging.getLogger(__name__)


class Refiller:
    """One refiller of a queue, for one asyncio loop."""

    def __init__(self, database: Database, address: FrontAddress, pool_s: float = POOL_S) -> None:
        """Open nothing yet; pool_s: for a front that nobody has begun before."""
        self._line = database.dedicated_async_connection()
        self._link = RedisLink(address, _PUSH_S)
        self._told = address.told
        self._pool_s = pool_s
        self._holder = str(uuid.uuid4())
        self._ending = asyncio.Event()
        self._acting = False
        self._filling: Filler | None = None
        self._returning = LeaseReturns(self._rows)
        self._run_id: str | None = None
        self._restarted = False
        self._patient_until = float("-inf")
        self._trouble: str | None = None
        self._troubled_at = float("-inf")
        self._failures = 0
        self._look_at = float("-inf")

    async def run(self) -> None:
        """Keep the lists filled whenever this is the refiller that acts, until cancelled.

        What is under way is finished then, and the lists stay for the next refiller.
        """
        working = asyncio.create_task(self._work())
        try:
            await asyncio.shield(working)
        finally:
            self._ending.set()
            await asyncio.wait({working}, timeout=_END_S)
            working.cancel()
            await asyncio.wait({working}, timeout=_END_S)
            await self._link.close()
            await self._line.close()

    async def _work(self) -> None:
        while not self._ending.is_set():
            try:
                await self._turn()
                self._recover()
            except FrontDoubtful as doubt:  # noqa: PERF203  # each turn may fail
                await self._doubt(doubt)
            except Exception as error:  # noqa: BLE001  # whatever it is, the refiller goes on
                await self._stumble(error)

    async def _turn(self) -> None:
        """Tell PostgreSQL what there is, and act until it has to be told again, or stand by."""
        await self._returning.give_back()
        await self._connect()
        stocked = self._filling.told() if self._filling else "[]"
        kept = await self._keep(stocked)
        if not kept["acting"]:
            self._filling = None
            await self._pause(STANDBY_S * random.uniform(1, 2))  # noqa: S311  # spreads the askers
            return
        filling = await self._current(kept["epoch"])
        filling.stocks.overtaken(kept["overtaken"] or ())
        await filling.close(kept["closed"] or ())
        await filling.work(KEEP_S if filling.stocks.told() else IDLE_S, self._ending)

    async def _connect(self) -> None:
        """See to it that Redis is there, and find out whether it is still the same."""
        if self._link.connected:
            return
        state = FrontState.told(await self._row("front"), time.monotonic())
        info = await self._link.info(state.keys.state)
        self._restarted |= self._run_id not in {None, info.run_id}
        self._run_id = info.run_id

    async def _keep(self, stocked: str) -> Row:
        """Renew the term, if this is or can become the refiller that acts."""
        began = time.monotonic()
        kept = await self._row(
            "keep_front",
            holder=self._holder,
            term_s=TERM_S,
            stocked=stocked,
            look=began >= self._look_at,
        )
        if began >= self._look_at:  # under a held snapshot it takes long, and is done less often
            took_s = time.monotonic() - began
            self._look_at = began + min(_LONGEST_BLIND_S, _LOOK_SHARE * took_s)
        if kept["acting"] != self._acting:
            self._acting = kept["acting"]
            log.info("refilling %s" if self._acting else "another refills %s", self._told)
        return kept

    async def _current(self, epoch: int) -> Filler:
        """Return the filling of an epoch; raise `FrontDoubtful` if the front has to be begun."""
        old = self._filling
        if old is not None and old.lists.state.epoch == epoch:
            if self._restarted:
                raise FrontDoubtful("the server was started anew or is another one")
            return old
        state = FrontState.told(await self._row("front"), time.monotonic())
        if state.epoch == 0:
            raise FrontDoubtful("nobody has begun it yet")
        stocks = Levels(state.pool_s * _FRESH_PART)
        if old is not None:
            self._patient_until = time.monotonic() + _PATIENCE_S
            stocks = old.stocks  # what is asked for is the same
            stocks.clear()
        filling = self._filling_of(state, stocks)
        await filling.inherit()
        self._filling, self._restarted = filling, False
        return filling

    async def _doubt(self, doubt: FrontDoubtful) -> None:
        """Begin a new epoch, unless somebody else has done that or is just doing it."""
        old = self._filling
        if old is not None and not old.seen and time.monotonic() < self._patient_until:
            await self._pause(KEEP_S)
            return
        try:
            if old is not None and await self._is_over(old):
                return  # the next turn goes over to the new one
            await self._begin(doubt)
        except Exception as error:  # noqa: BLE001  # as in `_work`
            await self._stumble(error)
        else:
            await self._back_off()

    async def _is_over(self, filling: Filler) -> bool:
        """Say whether another epoch than this filling's has begun in PostgreSQL."""
        row = await self._row("front")
        return bool(row["epoch"] != filling.lists.state.epoch)

    async def _begin(self, doubt: FrontDoubtful) -> None:
        """Begin a new epoch in PostgreSQL, then in Redis."""
        old = self._filling
        level = logging.WARNING if old else logging.INFO
        log.log(level, "the front at %s is begun anew: %s", self._told, doubt)
        pool_s = old.lists.state.pool_s if old else self._pool_s
        row = await self._row("begin_front", pool_s=pool_s)
        state = FrontState.told(row, time.monotonic())
        stocks = old.stocks if old else Levels(state.pool_s * _FRESH_PART)
        stocks.clear()
        self._filling = self._filling_of(state, stocks)
        await self._filling.lists.begin()
        self._restarted = False

    async def _stumble(self, error: Exception) -> None:
        """Say what is wrong, once; let another refiller try, if it is Redis; wait a little."""
        trouble = type(error).__name__
        if trouble != self._trouble:
            self._trouble = trouble
            known = isinstance(error, TaskqError)
            log.warning("refilling must wait: %s", error, exc_info=None if known else error)
        if isinstance(error, FrontDown) and self._acting:
            with suppress(Exception):  # then its term ends all the same
                await self._keep("[]")
            self._acting = False
        await self._back_off()

    def _recover(self) -> None:
        if self._trouble is not None:
            log.warning("refilling works again")
            self._trouble = None

    async def _back_off(self) -> None:
        now = time.monotonic()
        self._failures = 0 if now > self._troubled_at + _CALM_S else min(self._failures + 1, 10)
        self._troubled_at = now
        await self._pause(min(_MOST_BACKOFF_S, _BACKOFF_S * 2.0**self._failures))

    async def _pause(self, seconds: float) -> None:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._ending.wait(), seconds)

    def _filling_of(self, state: FrontState, stocks: Levels) -> Filler:
        return Filler(self._rows, Lists(self._link, state), stocks, self._returning)

    async def _row(self, name: str, **values: object) -> Row:
        (row,) = await self._rows(name, **values)
        return row

    async def _rows(self, name: str, **values: object) -> list[Row]:
        try:
            return await asyncio.wait_for(self._line.rows(name, **values), _STATEMENT_S)
        except asyncio.TimeoutError:
            raise Unavailable(f"the database does not answer in {_STATEMENT_S:g} s") from None
