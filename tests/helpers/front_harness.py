"""A front whose lists a test fills, and a pool that is called as a gateway calls it."""

from __future__ import annotations

import asyncio
import itertools

from taskq import Campaign
from taskq.db.connections import Database
from taskq.dispatch.fair_share import Scope
from taskq.front.entries import Keys
from taskq.front.pool import Pool
from taskq_agent.protocol import Task
from tests.fixtures.redis_servers import RedisServer
from tests.helpers.scripted_pool import ScriptedPool
from tests.helpers.waiting import until

ALL = Scope("/")
leases = (f"00000000-0000-4000-8000-{number:012d}" for number in itertools.count())


class ScriptedFront:
    """A front (Redis lists of tasks leased ahead) that a test fills."""

    def __init__(self, database: Database, server: RedisServer, campaign: Campaign) -> None:
        self.server = server
        self.campaign = campaign.campaign_id
        self.scripted_pool = ScriptedPool(database, self.campaign)
        self.keys = Keys(self.scripted_pool.state["name"])
        self.begin()

    def begin(self) -> None:
        """Set the epoch in Redis, as after a loss of all other keys."""
        self.server.admin.hset(self.keys.state, "epoch", self.scripted_pool.state["epoch"])

    def fill(self, most: int) -> list[bytes]:
        """Lease some tasks ahead and push their entries; return these."""
        entries = [entry.encode() for entry in self.scripted_pool.entries(most)]
        self.push(*entries)
        return entries

    def push(self, *entries: bytes, campaign: int | None = None) -> None:
        """Push byte strings, which may be entries."""
        self.server.admin.rpush(self.keys.tasks(campaign or self.campaign), *entries)

    def left(self) -> int:
        """Return the length of the list."""
        return int(self.server.admin.llen(self.keys.tasks(self.campaign)))


class PoolClient:
    """A pool, with the calls of a gateway."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    async def __aenter__(self) -> None:
        await self.pool.start()

    async def __aexit__(self, *_: object) -> None:
        await self.pool.close()

    async def wait_until_filled(self, scope: Scope = ALL) -> None:
        """Wait until the pool has tasks for claims of this scope."""
        await until(lambda: self.pool.has_entries(scope))

    def ask(
        self, session: int = 1, want: int = 1, lease: str = "", scope: Scope = ALL
    ) -> asyncio.Future[list[Task]]:
        """Claim; the result is the tasks, none if the claim belongs to PostgreSQL."""
        claimed: asyncio.Future[list[Task]] = asyncio.get_running_loop().create_future()
        if not self.pool.submit(session, lease or next(leases), want, scope, claimed.set_result):
            claimed.set_result([])
        return claimed

    async def claim(self, session: int = 1, want: int = 1, lease: str = "") -> list[Task]:
        """Claim, and wait for the tasks."""
        return await self.ask(session, want, lease)


def task_leases(tasks: list[Task]) -> list[tuple[int, str]]:
    return [(task.task, task.lease) for task in tasks]
