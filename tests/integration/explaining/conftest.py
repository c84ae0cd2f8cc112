"""A keeper that has just acted, and campaigns with tasks."""

from __future__ import annotations

import pytest

from taskq import Campaign, Client
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres, keep
from tests.integration.explaining.support import Make


@pytest.fixture(autouse=True)
def _kept(postgres: Postgres) -> None:
    """Let there be a keeper."""
    keep(postgres)


@pytest.fixture
def make(queue: Client) -> Make:
    """Give a function that makes a campaign with a handler and tasks."""

    def made(path: str = "/c", tasks: int = 20, **spec: object) -> Campaign:
        return servable(queue, path, tasks, **spec)

    return made
