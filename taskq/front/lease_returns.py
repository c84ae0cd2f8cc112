"""Leases of the pool that are to be given back, since nobody is to be handed their tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from taskq.db.connections import Row
from taskq.dispatch.exchange_request import Fence, fence_arrays
from taskq.errors import Unavailable
from taskq_agent.protocol import Task

#: Runs a statement.
Rows = Callable[..., Awaitable[list[Row]]]

#: Given back in one statement: a whole list.
_AT_ONCE: Final = 20_000
#: Kept while PostgreSQL is away; more of them wait for the pool's deadline.
_MOST_KEPT: Final = 100_000


class LeaseReturns:
    """What is to be given back, until PostgreSQL has done it; nobody else may know of it."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._due: list[Fence | Task] = []

    def add(self, leases: Iterable[Fence | Task]) -> None:
        """Let these be given back as well."""
        self._due += leases

    async def give_back(self) -> None:
        """Give back all that there is; what may not have been done is done the next time.

        Raise what the statement raises.
        """
        while self._due:
            some, self._due = self._due[:_AT_ONCE], self._due[_AT_ONCE:]
            try:
                await self._rows("return_ahead", **fence_arrays(some))
            except (Unavailable, asyncio.TimeoutError, asyncio.CancelledError):
                # Perhaps it was done; their leases see to it that it counts once.
                self._due = [*some, *self._due][:_MOST_KEPT]
                raise
