"""Gateways, and who speaks with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.gateways import (  # noqa: F401  # fixtures, for all tests here
    Realm,
    realm,
    shared_gateway,
    shared_queue,
    start_gateway,
)
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
