"""A campaign with two tasks, an agent that holds them, and a recount at the end of each test."""

from __future__ import annotations

import pytest

from tests.helpers.scripted_agent import Claimed, ScriptedAgent


@pytest.fixture(autouse=True)
def _sound(true_counts: None) -> None:
    """Whatever met, the counts equal a recount."""


@pytest.fixture
def held(agent: ScriptedAgent) -> list[Claimed]:
    """Give both tasks, in the agent's hands, each with a row of its own."""
    return agent.claim_singly(2)
