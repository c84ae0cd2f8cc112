"""The refiller: leases tasks ahead in PostgreSQL and pushes them into the lists of a front.

Any number of refillers may run. In each term one of them acts; when it ends, another takes over and
continues with the lists as they are. A refiller that cannot reach Redis gives up its term, since
another may reach it. No failure of Redis or PostgreSQL ends a refiller.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from taskq.db.connections import Database, Row
from taskq.front.address import FrontAddress
from taskq.front.entries import POOL_S, FrontState
from taskq.front.fill import Filler, FrontDoubtful
from taskq.front.lease_returns import LeaseReturns
from taskq.front.levels import Levels
from taskq.front.lists import Lists
from taskq.front.redis import FrontDown, RedisLink
from taskq.model.errors import TaskqError, Unavailable

#: Seconds for which the acting refiller may go on without renewing its term.
TERM_S: Final = 5.0
#: Seconds between statements that renew the term: while lists hold entries, and while none does.
KEEP_S: Final = 0.25
IDLE_S: Final = 0.5
#: The pause between two looks for higher priorities: a multiple of the duration of one look, and
#: the limit of the pause in seconds. Under a held snapshot a look takes long.
_LOOK_SHARE: Final = 20.0
_MOST_LOOK_PAUSE_S: Final = 5.0
#: Seconds between two tries of a refiller that does not act, up to doubled at random.
TAKE_OVER_S: Final = 1.0
#: The share of the pool's time for which an entry may stay in a list; it may be handed out in the
#: first half.
_FRESH_PART: Final = 0.25
#: Seconds that another process has to begin in Redis the epoch that it began in PostgreSQL.
_BEGIN_S: Final = 2.0
#: Seconds that a script and a statement may take; a push of a megabyte takes longer than a pop.
_PUSH_S: Final = 2.0
_STATEMENT_S: Final = 10.0
_BACKOFF_S: Final = 0.1
_MOST_BACKOFF_S: Final = 2.0
#: Seconds without trouble after which the backoff begins again.
_BACKOFF_RESET_S: Final = 5.0
_END_S: Final = 5.0
#: Seconds that the thread of a refiller has to end.
_THREAD_END_S: Final = 6.0

log = logging.getLogger(__name__)


class Refiller:
    """One refiller of a queue, for one asyncio loop."""

    def __init__(self, database: Database, address: FrontAddress, pool_s: float = POOL_S) -> None:
        """Open nothing yet. pool_s: the pool's time limit, for a front that was never begun."""
        self._connection = database.dedicated_async_connection()
        self._link = RedisLink(address, _PUSH_S)
        self._display_name = address.display_name
        self._pool_s = pool_s
        self._holder = str(uuid.uuid4())
        self._ending = asyncio.Event()
        self._acting = False
        self._filler: Filler | None = None
        self._lease_returns = LeaseReturns(self._rows)
        self._run_id: str | None = None
        self._restarted = False
        self._others_begin_until = float("-inf")
        self._trouble: str | None = None
        self._troubled_at = float("-inf")
        self._failures = 0
        self._look_at = float("-inf")

    async def run(self) -> None:
        """Keep the lists filled whenever this is the refiller that acts, until cancelled.

        When cancelled, it finishes what is under way and leaves the lists to the next refiller.
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
            await self._connection.close()

    async def _work(self) -> None:
        while not self._ending.is_set():
            try:
                await self._turn()
                self._recover()
            except FrontDoubtful as doubt:  # noqa: PERF203  # each turn may fail
                await self._begin_or_wait(doubt)
            except Exception as error:  # noqa: BLE001  # whatever it is, the refiller goes on
                await self._back_off_from(error)

    async def _turn(self) -> None:
        """Renew the term, reporting the levels; then fill until the next turn, or stand by."""
        await self._lease_returns.give_back()
        await self._connect()
        lists = self._filler.to_json() if self._filler else "[]"
        kept = await self._keep(lists)
        if not kept["acting"]:
            self._filler = None
            await self._pause(TAKE_OVER_S * random.uniform(1, 2))  # noqa: S311  # spreads the askers
            return
        filler = await self._current(kept["epoch"])
        filler.levels.overtaken(kept["overtaken"] or ())
        await filler.close(kept["closed"] or ())
        await filler.work(KEEP_S if filler.levels.as_record() else IDLE_S, self._ending)

    async def _connect(self) -> None:
        """Connect to Redis, and find out whether it is still the same process."""
        if self._link.connected:
            return
        state = FrontState.from_row(await self._row("front_state"), time.monotonic())
        info = await self._link.info(state.keys.state)
        self._restarted |= self._run_id not in {None, info.run_id}
        self._run_id = info.run_id

    async def _keep(self, lists: str) -> Row:
        """Renew the term, if this is or can become the refiller that acts."""
        began = time.monotonic()
        kept = await self._row(
            "keep_front",
            holder=self._holder,
            term_s=TERM_S,
            stocked=lists,
            look=began >= self._look_at,
        )
        if began >= self._look_at:  # under a held snapshot it takes long, and is done less often
            took_s = time.monotonic() - began
            self._look_at = began + min(_MOST_LOOK_PAUSE_S, _LOOK_SHARE * took_s)
        if kept["acting"] != self._acting:
            self._acting = kept["acting"]
            log.info(
                "refilling %s" if self._acting else "another process refills %s", self._display_name
            )
        return kept

    async def _current(self, epoch: int) -> Filler:
        """Return the filler of an epoch; raise `FrontDoubtful` if a new epoch has to begin."""
        old = self._filler
        if old is not None and old.lists.state.epoch == epoch:
            if self._restarted:
                raise FrontDoubtful("the server was restarted or replaced")
            return old
        state = FrontState.from_row(await self._row("front_state"), time.monotonic())
        if state.epoch == 0:
            raise FrontDoubtful("there was none yet")
        levels = Levels(state.pool_s * _FRESH_PART)
        if old is not None:
            self._others_begin_until = time.monotonic() + _BEGIN_S
            levels = old.levels  # the demand is the same
            levels.clear()
        filler = self._filler_of(state, levels)
        await filler.inherit()
        self._filler, self._restarted = filler, False
        return filler

    async def _begin_or_wait(self, doubt: FrontDoubtful) -> None:
        """Begin a new epoch, unless another process has done so or may be doing it."""
        old = self._filler
        if old is not None and not old.seen and time.monotonic() < self._others_begin_until:
            await self._pause(KEEP_S)
            return
        try:
            if old and (await self._row("front_state"))["epoch"] != old.lists.state.epoch:
                return  # the next turn adopts the new epoch
            await self._begin(doubt)
        except Exception as error:  # noqa: BLE001  # as in `_work`
            await self._back_off_from(error)
        else:
            await self._back_off()

    async def _begin(self, doubt: FrontDoubtful) -> None:
        """Begin a new epoch in PostgreSQL, then in Redis."""
        old = self._filler
        level = logging.WARNING if old else logging.INFO
        log.log(level, "the front at %s begins a new epoch: %s", self._display_name, doubt)
        pool_s = old.lists.state.pool_s if old else self._pool_s
        await self._withdraw_all()
        row = await self._row("begin_front", pool_s=pool_s)
        state = FrontState.from_row(row, time.monotonic())
        levels = old.levels if old else Levels(state.pool_s * _FRESH_PART)
        levels.clear()
        self._filler = self._filler_of(state, levels)
        await self._filler.lists.begin()
        self._restarted = False

    async def _withdraw_all(self) -> None:
        """Withdraw all entries and give back their leases, which would last to the pool's deadline.

        A replica or a snapshot may still hold tasks that were handed out a moment ago. They are
        given back as well: such a task may run twice, and counts once.
        """
        state = FrontState.from_row(await self._row("front_state"), time.monotonic())
        if state.epoch:
            lists = Lists(self._link, state)
            filled = self._filler.levels.campaigns() if self._filler else ()
            for campaign in {*await lists.known(), *filled}:
                self._lease_returns.add(await lists.withdrawn(campaign))
            await self._lease_returns.give_back()

    async def _back_off_from(self, error: Exception) -> None:
        """Log a new trouble once, give up the term if Redis fails, and back off."""
        trouble = type(error).__name__
        if trouble != self._trouble:
            self._trouble = trouble
            known = isinstance(error, TaskqError)
            log.warning(
                "refilling cannot be done now, trying again: %s",
                error,
                exc_info=None if known else error,
            )
        if isinstance(error, FrontDown) and self._acting:
            with suppress(Exception):  # otherwise the term ends on its own
                await self._keep("[]")
            self._acting = False
        await self._back_off()

    def _recover(self) -> None:
        if self._trouble is not None:
            log.warning("refilling works again")
            self._trouble = None

    async def _back_off(self) -> None:
        now = time.monotonic()
        self._failures = (
            0 if now > self._troubled_at + _BACKOFF_RESET_S else min(self._failures + 1, 10)
        )
        self._troubled_at = now
        await self._pause(min(_MOST_BACKOFF_S, _BACKOFF_S * 2.0**self._failures))

    async def _pause(self, seconds: float) -> None:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._ending.wait(), seconds)

    def _filler_of(self, state: FrontState, levels: Levels) -> Filler:
        return Filler(self._rows, Lists(self._link, state), levels, self._lease_returns)

    async def _row(self, name: str, /, **values: object) -> Row:
        (row,) = await self._rows(name, **values)
        return row

    async def _rows(self, name: str, /, **values: object) -> list[Row]:
        try:
            return await asyncio.wait_for(self._connection.rows(name, **values), _STATEMENT_S)
        except asyncio.TimeoutError:
            raise Unavailable(f"the database does not answer in {_STATEMENT_S:g} s") from None


@contextmanager
def refilling(database: Database, address: FrontAddress, pool_s: float = POOL_S) -> Iterator[None]:
    """Run a `Refiller` in a thread for the duration of the block."""
    loop = asyncio.new_event_loop()
    running = loop.create_task(Refiller(database, address, pool_s).run())
    thread = threading.Thread(target=_run, args=(loop, running), name="taskq-refiller", daemon=True)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(running.cancel)
        thread.join(_THREAD_END_S)


def _run(loop: asyncio.AbstractEventLoop, running: asyncio.Task[Any]) -> None:
    try:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(running)
    finally:
        loop.close()
