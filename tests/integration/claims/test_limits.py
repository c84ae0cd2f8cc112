"""Limits of a campaign: how many of its tasks may run, and which tags an agent must offer."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.rows import dict_row

from taskq import Campaign, CampaignSpec, Client
from tests.fixtures.queues import Hire
from tests.helpers.claims_at_once import most_at_work, turn
from tests.helpers.postgres import Postgres, assert_counts_are_true

WORKING = "select count(*) from taskq.state where status = 'working'"


@pytest.fixture
def limited(queue: Client) -> Campaign:
    """Give a campaign of 300 tasks, 5 of which may run at a time."""
    campaign = queue.create_campaign(CampaignSpec("/limited", max_running=5))
    campaign.seed({"n": n} for n in range(300))
    return campaign


def test_no_more_run_than_the_campaign_allows(limited: Campaign, hire: Hire) -> None:
    """A claim gets what the limit leaves, though more is waiting."""
    first, second = hire(limited.path), hire(limited.path)
    held = first.claim(3)
    assert [len(held), len(second.claim(3)), len(first.claim(3))] == [3, 2, 0]
    first.done(held[0])
    assert len(second.claim(10)) == 1


def test_task_that_ends_makes_room_in_the_same_exchange(limited: Campaign, hire: Hire) -> None:
    """An agent that reports one task and claims another is not held up by its own."""
    agent = hire(limited.path)
    held = agent.claim(5)
    for _ in range(3):
        held = turn(agent, held, 5)
        assert len(held) == 5


def test_limit_holds_while_many_claim_at_once(
    limited: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Eight connections claim and report as fast as they can; at no moment do more than five run.

    A claim that counted before the one ahead of it committed would overrun the limit.
    """
    agents = [hire(limited.path) for _ in range(8)]
    done, most = most_at_work(agents, postgres, WORKING)
    assert done == 300
    assert most <= 5
    assert_counts_are_true(postgres)


def test_limit_refuses_claims_that_cannot_see_the_others(
    limited: Campaign, hire: Hire, dsn: str
) -> None:
    """Under an old snapshot nobody knows how many run, so a claim there is an error."""
    agent = hire(limited.path)
    with psycopg.connect(dsn, row_factory=dict_row) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        claim = "select from taskq.claim('/limited', %s, gen_random_uuid())"
        with pytest.raises(psycopg.Error, match="needs read committed") as raised:
            other.execute(claim, [agent.session])
    assert raised.value.sqlstate == "TQ400"


def test_agent_without_what_is_required_gets_nothing(queue: Client, hire: Hire) -> None:
    """Tags are checked where tasks are handed out, whoever chooses the campaign."""
    campaign = queue.create_campaign(CampaignSpec("/gpu", requires=("gpu", "mem>=16")))
    campaign.seed({"n": n} for n in range(4))
    small = hire("/gpu", offers=("gpu", "mem=8"))
    large = hire("/gpu", offers=("gpu", "mem=64", "site=kr"))
    assert (small.claim(4), len(large.claim(3))) == ([], 3)
    assert [len(small.claim(1)), len(large.claim(3))] == [0, 1]


def test_repeated_claim_under_requirements_gets_the_same_tasks(queue: Client, hire: Hire) -> None:
    """A claim whose answer was lost is answered again, beside new claims of others."""
    campaign = queue.create_campaign(CampaignSpec("/gpu", requires=("gpu",)))
    campaign.seed({"n": n} for n in range(4))
    agent = hire("/gpu", offers=("gpu",))
    first = agent.claim(2)
    assert agent.claim(2, lease=first[0].lease) == first
