"""A campaign with tasks, and a pool to lease them to."""

from __future__ import annotations

import pytest

from taskq import Campaign, Client, Seed
from taskq.db.connections import Database
from tests.helpers.campaigns import servable
from tests.helpers.scripted_pool import ScriptedPool


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give an open campaign, /c, with the tasks 0 to 9."""
    made = servable(queue)
    made.seed(Seed({"n": n}, str(n)) for n in range(10))
    return made


@pytest.fixture
def pool(database: Database, campaign: Campaign) -> ScriptedPool:
    """Give a pool for it."""
    return ScriptedPool(database, campaign.campaign_id)
