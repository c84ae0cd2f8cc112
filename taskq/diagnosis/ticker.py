"""The ticker: live counts for all viewers, from one statement a second at most."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from taskq.db.access import Queries
from taskq.diagnosis.campaign_tree import Base, Tree, grow
from taskq.diagnosis.shared_readings import in_thread
from taskq.model.errors import NotOverGateway, TaskqError
from taskq.model.views import Status

#: Seconds between two statements.
PERIOD_S: Final = 1.0
#: A statement's time, times this, is the least time between its start and the next one's.
SHARE: Final = 20
#: Seconds between counts of agents, looks at delayed tasks, and new starts of paces.
SCOPES_S: Final = 10.0
DUES_S: Final = 5.0
PACES_S: Final = 60.0
#: Minutes over which a pace is taken.
PACE_MINUTES: Final = 15

log = logging.getLogger(__name__)


class Ticker:
    """Reads the tree of campaigns while it has viewers; for one asyncio loop.

    path: the campaign at the top of the tree. took_s: seconds that the last statement took.
    trouble: why it failed; empty if it did not.
    """

    def __init__(self, queries: Queries, path: str = "/", *, period_s: float = PERIOD_S) -> None:
        self._queries = queries
        self._path = path
        self._period_s = period_s
        self.took_s = 0.0
        self.trouble = ""
        self._tree = Tree()
        self._statuses: list[Status] = []
        self._bases: dict[int, Base] = {}
        self._scopes: dict[int, int] | None = None
        self._dues: dict[int, float] = {}
        self._read_at = dict.fromkeys(("scopes", "paces", "dues"), float("-inf"))
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
                for name in ("counts", "scopes", "paces", "dues"):
                    if name != "dues" or self._some_delayed():
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
                    log.warning("live counts must wait: %s", error)
                except Exception as error:
                    self.trouble = repr(error)
                    log.exception("live counts could not be read")
            news, self._news = self._news, asyncio.get_running_loop().create_future()
            news.set_result(latest)

    def _due(self) -> str:
        """Return the next reading: mostly counts, sometimes one of the others instead."""
        now = time.monotonic()
        if not self._statuses:
            return "counts"
        for name, fresh_s in (("paces", PACES_S), ("scopes", SCOPES_S), ("dues", DUES_S)):
            if now >= self._read_at[name] + fresh_s and (name != "dues" or self._some_delayed()):
                return name
        return "counts"

    def _some_delayed(self) -> bool:
        return any(one.delayed for one in self._statuses)

    async def _read(self, name: str) -> None:
        began = time.monotonic()
        self._read_at[name] = began
        share = 0  # one that fails may have waited for long; it is tried again after a period
        try:
            await in_thread(getattr(self, f"_read_{name}"))
            share = SHARE
        finally:
            now = time.monotonic()
            self.took_s = now - began
            self._next_at = max(now, began + max(self._period_s, share * self.took_s))
        if name == "counts" or self._tree.nodes:
            self._tree = await in_thread(
                grow, self._statuses, self._bases, self._scopes, time.monotonic(), self._dues
            )

    def _read_counts(self) -> None:
        rows = self._queries.rows("counts", path=self._path, depth=None)
        self._statuses = [Status(**row) for row in rows]

    def _read_scopes(self) -> None:
        rows = self._queries.rows("scopes", path=self._path)
        self._scopes = {row["campaign_id"]: row["agents"] for row in rows}

    def _read_paces(self) -> None:
        rows = self._queries.rows("paces", path=self._path, minutes=PACE_MINUTES)
        now = time.monotonic()
        self._bases = {row["campaign_id"]: Base(row["ended"], now - row["age_s"]) for row in rows}

    def _read_dues(self) -> None:
        try:
            rows = self._queries.rows("last_due", path=self._path)
        except NotOverGateway:  # one of an older release
            rows = []
        now = time.monotonic()
        self._dues = {row["campaign_id"]: now + row["due_s"] for row in rows}
