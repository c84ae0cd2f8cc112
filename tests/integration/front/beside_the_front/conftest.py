"""Agents next to the database, and a front that is filled for them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq.dispatch.direct import DirectTransport
from taskq.front.address import FrontAddress
from taskq.front.blocking import BlockingPool, refilling
from taskq.front.entries import Keys
from taskq.front.levels import LEAST
from tests.fixtures.front import Popper
from tests.fixtures.redis_servers import RedisServer
from tests.helpers.campaigns import servable
from tests.helpers.scripted_pool import ScriptedPool
from tests.integration.front.beside_the_front.support import POOL_S, Employ, Hired, Lease, stock


@pytest.fixture
def front(redis_server: RedisServer) -> FrontAddress:
    """Give the address of the front."""
    return FrontAddress.parsed(redis_server.url)


@pytest.fixture
def employ(front: FrontAddress) -> Iterator[Employ]:
    """Give a function that starts an agent of a queue with the front."""
    hired: list[Hired] = []

    def start(database: Database) -> Hired:
        hired.append(Hired(DirectTransport(database, front=partial(BlockingPool, address=front))))
        return hired[-1]

    yield start
    for one in hired:
        one.dismiss()


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give a campaign all of whose tasks a refiller leases at once."""
    return servable(queue, tasks=LEAST)


@pytest.fixture
def refilled(
    database: Database, campaign: Campaign, popper: Popper, front: FrontAddress
) -> Iterator[Campaign]:
    """Give that campaign when a refiller has done so, which goes on with it."""
    with refilling(database, front, POOL_S):
        stock(database, popper, campaign)
        yield campaign


@pytest.fixture
def lease_all(database: Database, redis_server: RedisServer) -> Lease:
    """Give a function that leases a campaign's tasks: who gets one has it from the front."""

    def lease(campaign: Campaign) -> None:
        double = ScriptedPool(database, campaign.campaign_id, POOL_S)
        keys = Keys(double.state["name"])
        entries = double.entries(1_000)
        redis_server.admin.hset(keys.state, "epoch", double.state["epoch"])
        redis_server.admin.rpush(keys.tasks(campaign.campaign_id), *entries)
        assert campaign.status().waiting == 0
        double.keep((campaign.campaign_id, len(entries), 0))  # else nobody would look there

    return lease


@pytest.fixture
def leased(campaign: Campaign, lease_all: Lease) -> Campaign:
    """Give the campaign with all of its tasks leased, and no refiller."""
    lease_all(campaign)
    return campaign
