"""Claims of the last tasks of a campaign with batches: each agent gets its share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskq import Campaign, Client, Handler
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres
from tests.helpers.scripted_agent import ScriptedAgent

ELSEWHERE = """
    insert into taskq.session (
           key, campaign_id, opened_at, heartbeat_at, lease_s, slots, pid, agent, host, site,
           release)
    select gen_random_uuid(), %(campaign)s, now(), now(), 600, 8, 1, 'a', 'h' || n, 's', ''
      from generate_series(1, 3000) n
"""


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


def test_agents_that_leave_get_no_share_of_the_last_tasks(
    batched: Campaign, queue: Client, hire: Hire
) -> None:
    """They claim nothing more."""
    batched.seed({"n": n} for n in range(400))
    agents = [hire(host=host) for host in ("n1", "n2", "n2", "n2")]
    queue.fleet.ban("host", "n2", why="it is broken")
    assert claimed(agents[:1], 500) == [400]


def test_batches_are_full_where_enough_tasks_wait(batched: Campaign, hire: Hire) -> None:
    batched.seed({"n": n} for n in range(2_000))
    assert claimed([hire() for _ in range(3)], 500) == [500, 500, 334]


def test_tasks_taken_one_by_one_are_claimed_as_wanted(campaign: Campaign, hire: Hire) -> None:
    campaign.seed({"n": n} for n in range(600))
    assert claimed([hire() for _ in range(3)], 500) == [500, 100, 0]


@pytest.mark.parametrize("analyzed", [False, True])
def test_agents_of_other_campaigns_cost_the_last_tasks_nothing(
    batched: Campaign, queue: Client, hire: Hire, postgres: Postgres, analyzed: bool
) -> None:
    batched.seed({"n": n} for n in range(600))
    agents = [hire() for _ in range(3)]
    postgres.execute(ELSEWHERE, {"campaign": servable(queue, "/elsewhere").status().campaign_id})
    if analyzed:
        postgres.execute("analyze taskq.session")
    shares = f"""
        select taskq.shares_of_tail(
            {batched.status().campaign_id}, array[{agents[0].session}]::bigint[], '{{500}}')
    """
    postgres.execute(shares)  # planning reads the catalogues
    with watched(postgres) as seen:
        assert postgres.execute(shares).fetchall()[0]["shares_of_tail"] == [200]
    sessions = seen.to("session")
    assert sessions.access_paths <= {"session by session_host", "session by session_pkey"}
    assert sessions.widest is not None
    assert sessions.widest.rows <= len(agents)
