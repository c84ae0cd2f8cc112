"""What a gateway does about tasks after it has handed them out from the front.

A claim in the database finds out whether its session still lives, and binds the tasks to it; one
in the front does neither. So both are done afterwards, for all together: sessions that have ended
get nothing more, and a task that is still worked on after some seconds becomes its session's, so
that it counts as lost if the agent is. Agents name what they have in their beats as well, so
nothing depends on this.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from itertools import takewhile
from typing import Final

from taskq.db.queries import array
from taskq.dispatch.exchange_request import Fence, fence_arrays
from taskq.errors import TaskqError
from taskq.gateway.db_pool import StatementPool
from taskq.gateway.errors import Busy
from taskq_agent.protocol import Task

log = logging.getLogger(__name__)

#: A session that has ended is handed tasks for so long at most.
CHECK_S: Final = 2.0
#: Tasks that are shorter need not be named at all.
NAMED_S: Final = 10.0
_LAST_WORD_S: Final = 2.0
_MOST_UNNAMED: Final = 200_000
_MOST_ENDED: Final = 100_000
#: So many are named at a time, so long apart: what agents wait for goes first.
_MOST_AT_ONCE: Final = 250
_APART_S: Final = 0.02


class Bindings:
    """Tasks handed out from the front, by one gateway; for one asyncio loop."""

    def __init__(self, statements: StatementPool) -> None:
        self._statements = statements
        self._claimants: set[int] = set()
        self._ended: set[int] = set()
        # Whose each is, and since when; in the order in which they were handed out.
        self._unnamed: dict[Fence, tuple[int, float]] = {}

    def has_ended(self, session: int) -> bool:
        """Tell whether a session is known to have ended."""
        return session in self._ended

    def note(self, session: int, tasks: Iterable[Task]) -> None:
        """Take in what a session has been given."""
        self._claimants.add(session)
        now = time.monotonic()
        for task in tasks:
            if len(self._unnamed) < _MOST_UNNAMED:
                # Of two sessions that were handed one task it is the first's.
                fence = Fence(task.campaign, task.task, task.lease)
                self._unnamed.setdefault(fence, (session, now))

    def reported(self, fences: Iterable[Fence]) -> None:
        """Take in what has ended."""
        for fence in fences:
            self._unnamed.pop(fence, None)

    async def keep(self) -> None:
        """Look after it all, until cancelled; then name what there is, if the database answers."""
        try:
            while True:
                await asyncio.sleep(CHECK_S)
                await self._turn()
        finally:
            with suppress(TaskqError, Busy, asyncio.TimeoutError):
                await asyncio.wait_for(self._name(time.monotonic()), _LAST_WORD_S)

    async def _turn(self) -> None:
        try:
            await self._look_up()
            await self._name(time.monotonic() - NAMED_S)
        except (TaskqError, Busy):
            pass  # the database is away, and is asked again
        except Exception:
            log.exception("looking after tasks that were handed out failed")

    async def _look_up(self) -> None:
        # Who claims meanwhile is looked up the next time.
        claimants, self._claimants = self._claimants, set()
        if not claimants:
            return
        try:
            rows = await self._statements.rows("ended_sessions", sessions=array(claimants))
        except (TaskqError, Busy):
            self._claimants |= claimants
            raise
        if len(self._ended) >= _MOST_ENDED:
            self._ended.clear()
        self._ended.update(row["session_id"] for row in rows)

    async def _name(self, before: float) -> None:
        due = list(takewhile(lambda item: item[1][1] <= before, self._unnamed.items()))
        for at in range(0, len(due), _MOST_AT_ONCE):
            some = due[at : at + _MOST_AT_ONCE]
            fences = [fence for fence, _ in some]
            await self._statements.rows(
                "name_ahead",
                sessions=array(session for _, (session, _) in some),
                **fence_arrays(fences),
            )
            self.reported(fences)
            await asyncio.sleep(_APART_S)
