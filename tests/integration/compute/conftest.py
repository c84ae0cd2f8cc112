"""A queue with agents of this machine, for all tests of a module: processes take a second."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

import taskq
from taskq import Client
from taskq.db.connections import Database
from taskq.db.gateway_queries import GatewayQueries
from tests.fixtures.databases import fresh_database
from tests.fixtures.gateways import GatewayProcess
from tests.fixtures.transports import FAR, NEAR, gateway_token


@pytest.fixture(scope="module")
def near_queue(server_dsn: str, template: str) -> Iterator[Client]:
    """Give a queue for the tests of a module, at PostgreSQL."""
    with fresh_database(server_dsn, template) as dsn, Client(Database(dsn).open()) as queue:
        yield queue


@pytest.fixture(scope="module", params=[NEAR, pytest.param(FAR, marks=pytest.mark.thorough)])
def shared_queue(
    request: pytest.FixtureRequest,
    near_queue: Client,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Client]:
    """Give that queue, as a submitter reaches it."""
    if request.param == NEAR:
        yield near_queue
        return
    dsn = near_queue.database.dsn
    gateway = GatewayProcess(dsn, tmp_path_factory.mktemp("gateway"))
    try:
        with Client(GatewayQueries(gateway.url, gateway_token(dsn))) as queue:
            yield queue
    finally:
        gateway.kill()


@pytest.fixture(scope="module")
def served_queue(
    near_queue: Client, shared_queue: Client, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    """Give a queue that agents of this machine serve, with a cache of inputs of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        with taskq.local_agents(near_queue, 2, "/"):
            yield shared_queue


@pytest.fixture
def name() -> str:
    """Give the path of a campaign that no other test has."""
    return f"/{secrets.token_hex(6)}"
