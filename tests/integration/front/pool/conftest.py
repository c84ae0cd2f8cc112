"""A front without entries, and pools in loops of their own."""

from __future__ import annotations

import asyncio

import pytest

from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq.dispatch.campaign_cache import CampaignCache
from taskq.front.address import FrontAddress
from taskq.front.pool import Pool
from tests.fixtures.redis_servers import RedisServer
from tests.helpers.campaigns import servable
from tests.helpers.front_harness import PoolClient, RunScenario, Scenario


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give a campaign that agents may choose, with more tasks than a test leases ahead."""
    return servable(queue, tasks=1_001)


@pytest.fixture
def run_scenario(database: Database, redis_server: RedisServer) -> RunScenario:
    """Give a function that runs a coroutine with a pool in a loop of its own."""

    def run(scenario: Scenario) -> None:
        async def whole() -> None:
            pool = Pool(database, FrontAddress.parsed(redis_server.url), CampaignCache())
            await pool.start()
            try:
                await scenario(PoolClient(pool))
            finally:
                await pool.close()

        asyncio.run(asyncio.wait_for(whole(), 60))

    return run
