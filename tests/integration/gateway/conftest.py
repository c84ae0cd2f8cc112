"""Gateways, and who speaks with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.gateways import (  # noqa: F401  # fixtures, for all tests here
    GatewayProcess,
    Realm,
    realm,
    shared_gateway,
    shared_queue,
    start_gateway,
)
from tests.helpers.way import Way, way_to
from tests.helpers.worker_node import WorkerNode
from tests.integration.gateway.peers import Agent
from tests.integration.gateway.site import Site


@pytest.fixture
def agent(realm: Realm) -> Agent:  # noqa: F811  # the fixture
    """Give an agent of the test's campaign."""
    return realm.agent()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Give a site with a certificate, without nodes."""
    return Site(tmp_path)


@pytest.fixture
def way(gateway: GatewayProcess) -> Iterator[Way]:
    """Give a way to the gateway that a test's module has as its own."""
    with way_to(gateway.port) as way:
        yield way


@pytest.fixture
def node(realm: Realm, tmp_path: Path) -> WorkerNode:  # noqa: F811  # the fixture
    """Give a node with a token of the site."""
    folder = tmp_path / "node"
    folder.mkdir()
    node = WorkerNode(folder)
    node.token.write_text(realm.site)
    return node
