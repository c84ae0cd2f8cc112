"""Heartbeats that name claims: their tasks stay, and what is left of them is answered."""

from __future__ import annotations

from typing import Any

import pytest

from taskq import Campaign, CampaignSpec, Client, Handler, Seed
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, value
from tests.helpers.scripted_agent import Claimed

pytestmark = pytest.mark.usefixtures("true_counts")


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    handler = Handler("command", argv=("x",), batch=100)
    campaign = queue.create_campaign(CampaignSpec("/c", handler=handler))
    campaign.seed(Seed({}, f"t{n:03}") for n in range(600))
    return campaign


def claim_of(tasks: list[Claimed], number: int | None = None) -> dict[str, Any]:
    """Return a claim as a heartbeat names it."""
    first = tasks[0]
    count = len(tasks) if number is None else number
    return {"campaign": first.campaign, "lease": first.lease, "tasks": count}


@pytest.mark.parametrize("singly", [False, True])
def test_tasks_of_a_claim_that_is_named_stay_with_the_agent(
    campaign: Campaign, hire: Hire, singly: bool
) -> None:
    """In bundles, and with rows of their own; those of a claim that is not named go back."""
    agent = hire()
    kept = agent.claim(300)
    lost = agent.claim(100)
    if singly:
        campaign.cancel(keys=[kept[5].key, lost[5].key])
        kept, lost = [*kept[:5], *kept[6:]], [*lost[:5], *lost[6:]]
    assert agent.heartbeat(claims=[claim_of(kept)]) == set()
    assert agent.kept == {}
    assert campaign.status().working == len(kept)
    assert [agent.done(task) for task in kept[:2]] == ["accepted"] * 2
    assert agent.done(lost[0]) == "superseded"


def test_agent_learns_what_is_left_of_a_claim(campaign: Campaign, hire: Hire) -> None:
    agent = hire()
    tasks = agent.claim(300)
    for task in tasks[:2]:
        agent.done(task)
    assert agent.heartbeat(claims=[claim_of(tasks[2:])]) == set()
    assert agent.kept == {}, "all that have not ended are there"
    campaign.cancel(keys=[task.key for task in tasks[10:]])
    agent.heartbeat(claims=[claim_of(tasks[2:])])
    assert {lease: sorted(left) for lease, left in agent.kept.items()} == {
        tasks[0].lease: [task.task for task in tasks[2:10]]
    }
    agent.heartbeat(claims=[claim_of(tasks[2:10])])
    assert agent.kept == {}


def test_outcomes_that_are_under_way_revoke_nothing(campaign: Campaign, hire: Hire) -> None:
    """An agent counts what has not ended; a report may come before or after the heartbeat."""
    agent = hire()
    tasks = agent.claim(100)
    agent.heartbeat(claims=[claim_of(tasks, 60)])
    assert agent.kept == {}
    agent.heartbeat(claims=[claim_of(tasks, 0)])
    assert agent.kept == {}
    assert campaign.status().working == 100


def test_claim_of_another_session_or_campaign_has_nothing_left(
    campaign: Campaign, hire: Hire, queue: Client
) -> None:
    other = queue.create_campaign("/d")
    mine, its = hire(), hire()
    tasks = its.claim(50)
    mine.heartbeat(claims=[claim_of(tasks)])
    assert mine.kept == {tasks[0].lease: []}
    its.heartbeat(claims=[claim_of(tasks) | {"campaign": other.campaign_id}])
    assert its.kept == {tasks[0].lease: []}
    assert campaign.status().working == 0, "its own claim was not named"


def test_begun_tasks_are_kept_as_the_last_heartbeat_names_them(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    agent = hire()
    tasks = agent.claim(50)
    said = "select claims -> 0 -> 'begun' from taskq.session where session_id = %s"
    for begun in ([tasks[1].task], []):
        agent.heartbeat(claims=[claim_of(tasks) | {"begun": begun}])
        assert value(postgres, said, agent.session) == begun
    agent.heartbeat(claims=[claim_of(tasks)])
    assert value(postgres, said, agent.session) is None
    agent.heartbeat(tasks)
    assert value(postgres, said, agent.session) is None
    assert campaign.status().working == 50
