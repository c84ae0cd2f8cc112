"""Leases of the pool to be given back to PostgreSQL, since their tasks are not handed out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from taskq.db.connections import Row
from taskq.dispatch.exchange_request import Fence, fence_arrays
from taskq.model.errors import Unavailable
from taskq_agent.protocol import Task

#: Runs a statement.
Rows = Callable[..., Awaitable[list[Row]]]

#: Leases given back in one statement: a whole list.
_AT_ONCE: Final = 20_000
#: Leases kept while PostgreSQL is away; any more expire at the pool's deadline.
_MOST_KEPT: Final = 100_000


class LeaseReturns:
    """Leases to be given back, kept until PostgreSQL has done so; no agent may know them."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._due: list[Fence | Task] = []

    def add(self, leases: Iterable[Fence | Task]) -> None:
        """Add leases to be given back."""
        self._due += leases

    async def give_back(self) -> None:
        """Give all leases back. Raise what the statement raises; the next call then tries again."""
        while self._due:
            some, self._due = self._due[:_AT_ONCE], self._due[_AT_ONCE:]
            try:
                await self._rows("return_ahead", lost=False, **fence_arrays(some))
            except (Unavailable, asyncio.TimeoutError, asyncio.CancelledError):
                # It may have been done. Repeating is idempotent: a lease is given back once.
                self._due = [*some, *self._due][:_MOST_KEPT]
                raise
