"""Statements of a gateway that share a few connections: how many may wait, and who comes again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from taskq.db.connections import Database, Row
from taskq.gateway.http.errors import Busy
from taskq.gateway.pace import Pace

#: Statements that may wait for a connection; beyond that, callers get `Busy`.
MOST_WAITING: Final = 4_096


class StatementPool:
    """Runs statements, one at a time on each connection; the others wait, up to a limit."""

    def __init__(
        self, database: Database, most: int, clients: Callable[[], int] = lambda: MOST_WAITING
    ) -> None:
        """most: connections. clients: returns how many clients may have been refused."""
        self._free = [database.dedicated_async_connection() for _ in range(most)]
        self._turns = asyncio.Semaphore(most)
        self._waiting = 0
        self._taken = 0
        self._clients = clients
        self._pace = Pace(time.monotonic)

    async def rows(self, name: str, /, **values: object) -> list[Row]:
        """Return all rows of a statement; raise `Busy` if too many wait already."""
        if self._waiting >= MOST_WAITING:
            served = self._taken - self._waiting
            raise Busy(self._pace.wait_s(self._waiting, served, self._clients()))
        self._taken += 1
        self._waiting += 1
        try:
            async with self._turns:
                connection = self._free.pop()
                try:
                    return await connection.rows(name, **values)
                finally:
                    self._free.append(connection)
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        """Close the connections; no statement may be under way."""
        for connection in self._free:
            await connection.close()
