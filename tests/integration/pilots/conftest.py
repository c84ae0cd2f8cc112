"""A pilot of a queue, and a batch system that does what the test says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from taskq import Client
from taskq.db.connections import Database
from taskq.db.gateway_queries import GatewayQueries
from tests.fixtures.transports import FAR, NEAR, FarGateway
from tests.helpers.postgres import Postgres
from tests.integration.pilots.support import PilotScene


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what is about the loops of a scene over both transports."""
    if "scene" in metafunc.fixturenames and "transport" in metafunc.fixturenames:
        metafunc.parametrize("transport", [NEAR, FAR], indirect=True)


@pytest.fixture
def scene(
    request: pytest.FixtureRequest,
    transport: str,
    database: Database,
    postgres: Postgres,
    tmp_path: Path,
) -> Iterator[PilotScene]:
    """Give a campaign and a batch system, without a pilot yet.

    Its loops are next to the database, or behind a gateway with a manager's token.
    """
    queue = Client(database)
    scene = PilotScene(queue, postgres, str(tmp_path))
    if transport == NEAR:
        yield scene
        return
    gateway: FarGateway = request.getfixturevalue("far_gateway")
    queue.create_campaign("/d")
    token, _ = queue.tokens.create("manager", "ada", ["/c", "/d"])
    scene.queries = GatewayQueries(gateway.url, token, patience_s=0)
    scene.table = {"gateways": ["https://gw"], "token_file": "/t"}
    yield scene
    scene.queries.close()
