"""The ticker: live counts for all viewers, from one statement a second at most."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from taskq.db.access import Queries
from taskq.diagnosis.campaign_tree import Tree, grow
from taskq.diagnosis.tree_readings import TreeReadings
from taskq.model.errors import TaskqError
from taskq.model.pauses import in_thread

#: Seconds between two statements.
PERIOD_S: Final = 1.0
#: A statement's time, times this, is the least time between its start and the next one's.
SHARE: Final = 20

log = logging.getLogger(__name__)


class Ticker:
    """Reads the tree of campaigns while it has viewers; for one asyncio loop.

    path: the campaign at the top of the tree. took_s: seconds that the last statement took.
    trouble: why it failed; empty if it did not.
    """

    def __init__(self, queries: Queries, path: str = "/", *, period_s: float = PERIOD_S) -> None:
        self._readings = TreeReadings(path)
        self._queries = queries
        self._period_s = period_s
        self.took_s = 0.0
        self.trouble = ""
        self._tree = Tree()
        self._viewers = 0
        self._next_at = float("-inf")
        self._turn = asyncio.Lock()
        self._news: asyncio.Future[Tree | None] = asyncio.get_running_loop().create_future()
        self._ticking: asyncio.Task[None] | None = None

    @property
    def viewers(self) -> int:
        """Number of viewers."""
        return self._viewers

    @property
    def late_s(self) -> float:
        """Seconds for which the next tree has been due; negative: it is not due yet."""
        return time.monotonic() - self._next_at

    async def tree(self, *, anew: bool = False) -> Tree:
        """Return the tree, at most two periods old while the database answers that fast.

        anew: read it now in any case. Raise the library's errors if it cannot be read.
        """
        async with self._turn:
            if not self._tree.nodes:
                # The first viewer waits once for all readings.
                await self._read("counts")
                for name in self._readings.due():
                    await self._read(name)
            elif anew or time.monotonic() >= self._next_at + self._period_s:
                await self._read("counts")
            return self._tree

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Count a viewer and read while the block lasts."""
        self._viewers += 1
        if self._ticking is None or self._ticking.done():
            self._ticking = asyncio.create_task(self._tick())
        try:
            yield
        finally:
            self._viewers -= 1

    async def next_tree(self, timeout_s: float) -> Tree | None:
        """Return the next tree; None if the database does not answer.

        Raise `asyncio.TimeoutError` if there is none within that time.
        """
        news = self._news
        # `asyncio.wait_for` may lose a tree that comes just when the time is over.
        await asyncio.wait([news], timeout=timeout_s)
        if not news.done():
            raise asyncio.TimeoutError
        return news.result()

    async def close(self) -> None:
        """Stop reading."""
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.wait([self._ticking])

    async def _tick(self) -> None:
        while self._viewers:
            await asyncio.sleep(max(0.0, self._next_at - time.monotonic()))
            latest: Tree | None = None
            async with self._turn:
                try:
                    await self._read(self._due())
                    latest = self._tree
                    self.trouble = ""
                except TaskqError as error:
                    self.trouble = str(error)
                    log.warning("live counts cannot be read now, trying again: %s", error)
                except Exception as error:
                    self.trouble = repr(error)
                    log.exception("live counts could not be read")
            news, self._news = self._news, asyncio.get_running_loop().create_future()
            news.set_result(latest)

    def _due(self) -> str:
        """Return the next reading: mostly counts, sometimes one of the others instead."""
        others = self._readings.due() if self._readings.statuses else []
        return others[0] if others else "counts"

    async def _read(self, name: str) -> None:
        began = time.monotonic()
        share = 0  # one that fails may have waited for long; it is tried again after a period
        try:
            await in_thread(self._readings.read, self._queries, name)
            share = SHARE
        finally:
            now = time.monotonic()
            self.took_s = now - began
            self._next_at = max(now, began + max(self._period_s, share * self.took_s))
        if name == "counts" or self._tree.nodes:
            self._tree = await in_thread(grow, self._readings, time.monotonic())
