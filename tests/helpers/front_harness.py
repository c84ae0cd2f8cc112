"""A front that a test stocks by hand, and a pool beside it, asked as a gateway asks it."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine
from typing import Any

from taskq import Campaign, Handler
from taskq.db.connections import Database
from taskq.dispatch.fair_share import Scope
from taskq.front.entries import Keys
from taskq.front.pool import Pool
from taskq_agent.protocol import Task
from tests.fixtures.redis_servers import RedisServer
from tests.helpers.scripted_pool import PoolDouble

NEVER_RUN = Handler("command", argv=("true",))
ALL = Scope("/")
PATIENCE_S = 30.0
leases = (f"00000000-0000-4000-8000-{number:012d}" for number in itertools.count())


class Front:
    """A front that a test stocks by hand."""

    def __init__(self, database: Database, server: RedisServer, campaign: Campaign) -> None:
        self.server = server
        self.campaign = campaign.campaign_id
        self.double = PoolDouble(database, self.campaign)
        self.keys = Keys(self.double.state["name"])
        self.begin()

    def begin(self) -> None:
        """Tell Redis the epoch, as if everything else had been emptied."""
        self.server.admin.hset(self.keys.state, "epoch", self.double.state["epoch"])

    def stock(self, most: int) -> list[bytes]:
        """Lease some tasks ahead and push their entries; return these."""
        entries = [entry.encode() for entry in self.double.entries(most)]
        self.push(*entries)
        return entries

    def push(self, *entries: bytes, campaign: int | None = None) -> None:
        """Push what may be entries."""
        self.server.admin.rpush(self.keys.tasks(campaign or self.campaign), *entries)

    def left(self) -> int:
        """Return how many are in the list."""
        return int(self.server.admin.llen(self.keys.tasks(self.campaign)))


class Desk:
    """A pool, and what a gateway would ask of it."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    async def stocked(self, serving: Scope = ALL) -> None:
        """Wait until claims are to be made here."""
        await until(lambda: self.pool.has_entries(serving))

    def ask(
        self, session: int = 1, want: int = 1, lease: str = "", serving: Scope = ALL
    ) -> asyncio.Future[list[Task]]:
        """Claim; the outcome is what was told, which is nothing if it is to be made elsewhere."""
        told: asyncio.Future[list[Task]] = asyncio.get_running_loop().create_future()
        if not self.pool.submit(session, lease or next(leases), want, serving, told.set_result):
            told.set_result([])
        return told

    async def claim(self, session: int = 1, want: int = 1, lease: str = "") -> list[Task]:
        """Claim, and wait for what is told."""
        return await self.ask(session, want, lease)


async def until(predicate: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not predicate():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s"
        await asyncio.sleep(0.01)


Scene = Callable[[Desk], Coroutine[Any, Any, None]]
Play = Callable[[Scene], None]


def plain(tasks: list[Task]) -> list[tuple[int, str]]:
    return [(task.task, task.lease) for task in tasks]
