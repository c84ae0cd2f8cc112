"""A front without entries, and a pool that is not open yet."""

from __future__ import annotations

import pytest

from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq.dispatch.campaign_cache import CampaignCache
from taskq.front.address import FrontAddress
from taskq.front.pool import Pool
from tests.fixtures.redis_servers import RedisServer
from tests.helpers.campaigns import servable
from tests.helpers.front_harness import PoolClient


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give a campaign that agents may choose, with more tasks than a test leases ahead."""
    return servable(queue, tasks=1_001)


@pytest.fixture
def pool_client(database: Database, redis_server: RedisServer) -> PoolClient:
    """Give a pool, which is opened by `async with`."""
    return PoolClient(Pool(database, FrontAddress.parsed(redis_server.url), CampaignCache()))
