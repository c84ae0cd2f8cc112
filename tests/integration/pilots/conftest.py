"""A pilot of a queue, and a batch system that does what the test says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from taskq import Client
from taskq.db.gateway_queries import GatewayQueries
from tests.fixtures.gateways import StartGateway, start_gateway  # noqa: F401  # a fixture
from tests.helpers.postgres import Postgres
from tests.helpers.variants import rest_thorough
from tests.integration.pilots.support import PilotScene


@pytest.fixture(params=rest_thorough(["postgresql", "gateway"]))
def scene(
    request: pytest.FixtureRequest, queue: Client, postgres: Postgres, tmp_path: Path
) -> Iterator[PilotScene]:
    """Give a campaign and a batch system, without a pilot yet.

    Its loops are beside the database, or behind a gateway with a manager's token.
    """
    scene = PilotScene(queue, postgres, str(tmp_path))
    if request.param == "postgresql":
        yield scene
        return
    start: StartGateway = request.getfixturevalue("start_gateway")
    queue.create_campaign("/d")
    token, _ = queue.tokens.create("manager", "ada", ["/c", "/d"])
    scene.queries = GatewayQueries(start().url, token, patience_s=0)
    scene.table = {"gateways": ["https://gw"], "token_file": "/t"}
    yield scene
    scene.queries.close()
