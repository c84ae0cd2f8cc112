"""Rows of which metrics are made: about the campaigns that a token is for, so many at most."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from taskq.db.connections import Row
from taskq.gateway.db_pool import StatementPool

#: Rows at most, each of which has series of its own: those with most unfinished tasks.
MOST: Final = 200
#: Seconds for which an answer serves all that ask for the same campaigns.
FRESH_S: Final = 5.0
_MOST_SCOPES: Final = 64


class MetricRows:
    """The latest rows of a statement, by the paths of tokens. One statement at a time."""

    def __init__(self, statements: StatementPool, name: str) -> None:
        self._statements = statements
        self._name = name
        self._turn = asyncio.Lock()
        self._known: dict[tuple[str, ...], tuple[float, list[Row]]] = {}

    async def rows(self, paths: tuple[str, ...]) -> list[Row]:
        """Return what it says of the campaigns at and below some paths; raise as it does."""
        async with self._turn:
            at, rows = self._known.get(paths, (0.0, []))
            if time.monotonic() - at < FRESH_S and at:
                return rows
            rows = await self._statements.rows(self._name, paths=list(paths), limit=MOST)
            if len(self._known) >= _MOST_SCOPES:
                self._known.clear()
            self._known[paths] = (time.monotonic(), rows)
            return rows
