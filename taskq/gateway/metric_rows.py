"""Rows for the metrics of a token's campaigns, limited in number."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from taskq.db.connections import Row
from taskq.gateway.db_pool import StatementPool
from taskq.gateway.errors import Busy
from taskq.model.errors import TaskqError

#: Most rows, each with series of its own: those with the most unfinished tasks.
MOST: Final = 200
#: Seconds for which an answer serves all requests for the same campaigns.
FRESH_S: Final = 5.0
_MOST_SCOPES: Final = 64
#: Seconds for which metrics wait for what the database knows.
_ANSWER_S: Final = 2.0


@dataclass(slots=True)
class StoredNumbers:
    """Numbers that only the database knows.

    troubles: the numbers of silent agents whose tasks are held, and of campaigns that paused
    themselves; empty if the database did not answer. campaigns, owners: the rows for their metrics;
    None if the database did not answer.
    """

    troubles: Sequence[int] = ()
    campaigns: Sequence[Row] | None = None
    owners: Sequence[Row] | None = None


class MetricReader:
    """Reads the numbers that only the database knows."""

    def __init__(self, statements: StatementPool) -> None:
        self._statements = statements
        self._campaigns = _Rows(statements, "campaign_metrics")
        self._owners = _Rows(statements, "owner_metrics")

    async def read(self, paths: tuple[str, ...]) -> StoredNumbers:
        """Return the numbers for some campaigns; fewer if the database does not answer soon."""
        found = StoredNumbers()
        with suppress(TaskqError, Busy, asyncio.TimeoutError):
            (row,) = await asyncio.wait_for(self._statements.rows("troubles"), _ANSWER_S)
            found.troubles = (row["held"], row["paused"])
            found.campaigns = await asyncio.wait_for(self._campaigns.rows(paths), _ANSWER_S)
            found.owners = await asyncio.wait_for(self._owners.rows(paths), _ANSWER_S)
        return found


class _Rows:
    """The latest rows of a statement, by the paths of tokens. One statement at a time."""

    def __init__(self, statements: StatementPool, name: str) -> None:
        self._statements = statements
        self._name = name
        self._turn = asyncio.Lock()
        self._known: dict[tuple[str, ...], tuple[float, list[Row]]] = {}

    async def rows(self, paths: tuple[str, ...]) -> list[Row]:
        """Return the rows of the campaigns at and below some paths; raise as the statement does."""
        async with self._turn:
            at, rows = self._known.get(paths, (0.0, []))
            if time.monotonic() - at < FRESH_S and at:
                return rows
            rows = await self._statements.rows(self._name, paths=list(paths), limit=MOST)
            if len(self._known) >= _MOST_SCOPES:
                self._known.clear()
            self._known[paths] = (time.monotonic(), rows)
            return rows
