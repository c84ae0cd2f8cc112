"""A campaign with two tasks, an agent that holds them, and a recount at the end of each test."""

from __future__ import annotations

import pytest

from taskq import Campaign, Seed
from tests.fixtures.queues import Hire
from tests.helpers.scripted_agent import Claimed, ScriptedAgent


@pytest.fixture(autouse=True)
def _sound(true_counts: None) -> None:
    """Whatever met, the counts equal a recount."""


@pytest.fixture
def agent(campaign: Campaign, hire: Hire) -> ScriptedAgent:
    """Give an agent of a campaign with the tasks a and b."""
    campaign.seed([Seed({"n": 1}, "a"), Seed({"n": 2}, "b")])
    return hire()


@pytest.fixture
def held(agent: ScriptedAgent) -> list[Claimed]:
    """Give both tasks, in the agent's hands, each with a row of its own."""
    return agent.claim_singly(2)
