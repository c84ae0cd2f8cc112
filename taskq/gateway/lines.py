"""A few connections to the database for many tasks of asyncio: one statement each at a time."""

from __future__ import annotations

import asyncio
from typing import Final

from taskq.database import Database, Row
from taskq.gateway.errors import Busy

#: What waits for a connection beyond this is told to come again.
MOST_WAITING: Final = 4_096


class Lines:
    """Runs statements, so many at a time; the others wait for their turn, up to a limit."""

    def __init__(self, database: Database, most: int) -> None:
        self._free = [database.async_line() for _ in range(most)]
        self._turns = asyncio.Semaphore(most)
        self._waiting = 0
        #: The highest of the servers that have answered; see `Line`.
        self.timeline = 0

    async def rows(self, name: str, **values: object) -> list[Row]:
        """Return all rows of a statement; raise `Busy` if too many wait already."""
        if self._waiting >= MOST_WAITING:
            raise Busy
        self._waiting += 1
        try:
            async with self._turns:
                line = self._free.pop()
                try:
                    return await line.rows(name, **values)
                finally:
                    self.timeline = max(self.timeline, line.timeline)
                    self._free.append(line)
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        """Close the connections; nothing may be under way."""
        for line in self._free:
            await line.close()
