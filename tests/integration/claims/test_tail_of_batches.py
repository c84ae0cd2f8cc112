"""Claims of the last tasks of a campaign with batches: each agent gets its share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskq import Campaign, Handler
from tests.fixtures.queues import Hire
from tests.helpers.scripted_agent import ScriptedAgent


@pytest.fixture
def batched(campaign: Campaign) -> Campaign:
    """Give a campaign of which up to 500 tasks have one start."""
    handler = Handler("command", argv=("dock", "{tasks}"), batch=500)
    campaign.change(replace(campaign.spec(), handler=handler))
    return campaign


def claimed(agents: list[ScriptedAgent], want: int) -> list[int]:
    return [len(agent.claim(want)) for agent in agents]


def test_last_tasks_of_batches_are_shared_by_the_slots_of_all_agents(
    batched: Campaign, hire: Hire
) -> None:
    batched.seed({"n": n} for n in range(600))
    agents = [hire() for _ in range(3)]
    assert claimed(agents, 500) == [200, 134, 89]
    rest = 0
    while some := sum(claimed(agents, 500)):
        rest += some
    assert rest == 600 - 200 - 134 - 89


def test_agent_with_more_slots_gets_more_of_the_last_tasks(batched: Campaign, hire: Hire) -> None:
    batched.seed({"n": n} for n in range(600))
    agents = [hire(slots=4), hire(slots=1), hire(slots=1)]
    assert claimed(agents, 1_000)[0] == 400


def test_batches_are_full_where_enough_tasks_wait(batched: Campaign, hire: Hire) -> None:
    batched.seed({"n": n} for n in range(2_000))
    assert claimed([hire() for _ in range(3)], 500) == [500, 500, 334]


def test_tasks_taken_one_by_one_are_claimed_as_wanted(campaign: Campaign, hire: Hire) -> None:
    campaign.seed({"n": n} for n in range(600))
    assert claimed([hire() for _ in range(3)], 500) == [500, 100, 0]
