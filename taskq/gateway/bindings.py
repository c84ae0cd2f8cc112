"""Tasks from the front, bound afterwards to the sessions that got them.

A claim in the database checks that its session lives, and binds the tasks to it; a claim from the
front does neither. `Bindings` does both afterwards, in batches. A session that has ended gets no
more tasks. A task that still runs after some seconds is bound to its session, so that it counts as
lost if the agent is lost. Nothing depends on this: agents also name what they hold in their
heartbeats.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from itertools import takewhile
from typing import Final

from taskq.db.catalogue import array
from taskq.dispatch.exchange_request import Fence, fence_arrays
from taskq.gateway.http.errors import Busy
from taskq.gateway.statement_pool import StatementPool
from taskq.model.errors import TaskqError
from taskq_agent.protocol import Task

log = logging.getLogger(__name__)

#: Seconds between checks; a session that has ended gets tasks for at most this long.
CHECK_S: Final = 2.0
#: Seconds after which a task is bound; shorter tasks never are.
NAMED_S: Final = 10.0
_CLOSE_S: Final = 2.0
_MOST_UNNAMED: Final = 200_000
_MOST_ENDED: Final = 100_000
#: Tasks bound in one statement, and the seconds between: agents' requests have priority.
_MOST_AT_ONCE: Final = 250
_LEAST_PAUSE_S: Final = 0.02


class Bindings:
    """The tasks from the front that one gateway has handed out; for one asyncio loop."""

    def __init__(self, statements: StatementPool) -> None:
        self._statements = statements
        self._claimants: set[int] = set()
        self._ended: set[int] = set()
        # The session of each task and when it was handed out, in that order.
        self._unnamed: dict[Fence, tuple[int, float]] = {}

    def has_ended(self, session: int) -> bool:
        """Return whether a session is known to have ended."""
        return session in self._ended

    def note(self, session: int, tasks: Iterable[Task]) -> None:
        """Note the tasks that a session got."""
        self._claimants.add(session)
        now = time.monotonic()
        for task in tasks:
            if len(self._unnamed) < _MOST_UNNAMED:
                # If two sessions got one task, it belongs to the first.
                fence = Fence(task.campaign, task.task, task.lease)
                self._unnamed.setdefault(fence, (session, now))

    def reported(self, fences: Iterable[Fence]) -> None:
        """Forget the tasks that agents have reported."""
        for fence in fences:
            self._unnamed.pop(fence, None)

    async def keep(self) -> None:
        """Check and bind, until cancelled; then bind all tasks, if the database answers."""
        try:
            while True:
                await asyncio.sleep(CHECK_S)
                await self._turn()
        finally:
            with suppress(TaskqError, Busy, asyncio.TimeoutError):
                await asyncio.wait_for(self._name(time.monotonic()), _CLOSE_S)

    async def _turn(self) -> None:
        try:
            await self._look_up()
            await self._name(time.monotonic() - NAMED_S)
        except (TaskqError, Busy):
            pass  # the database is away; the next turn asks again
        except Exception:
            log.exception("looking after tasks that were handed out failed")

    async def _look_up(self) -> None:
        # Sessions that claim meanwhile are looked up in the next turn.
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
            await asyncio.sleep(_LEAST_PAUSE_S)
