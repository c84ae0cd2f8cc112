"""Tasks of the pool in the hands of agents: reported on, named by beats, handed out twice."""

from __future__ import annotations

import pytest

from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq_agent.protocol import DONE, FAILED, RELEASED
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres, expire, silence, task_row
from tests.helpers.scripted_agent import Claimed, ScriptedAgent, report_of
from tests.helpers.scripted_pool import ScriptedPool
from tests.integration.front.leasing_ahead.support import say

pytestmark = pytest.mark.usefixtures("true_counts")


def name(database: Database, agent: ScriptedAgent, task: Claimed) -> None:
    """Say to whom a task was handed out, as a gateway does after a while."""
    database.rows(
        "name_ahead",
        sessions=[agent.session],
        campaigns=[task.campaign],
        tasks=[task.task],
        leases=[task.lease],
    )


@pytest.mark.parametrize("outcome", [DONE, FAILED, RELEASED])
def test_report_on_a_pooled_task_counts_and_is_the_reporters(
    outcome: str, pool: ScriptedPool, hire: Hire, postgres: Postgres
) -> None:
    """A task may end before its agent has named it in a beat; the attempt says who it was."""
    agent = hire()
    task, *others = pool.lease(4)
    assert say(agent, report_of(task, outcome)) == ["accepted"]
    assert say(agent, *(report_of(other, outcome) for other in others)) == ["accepted"] * 3
    assert say(agent, report_of(task, outcome)) == ["duplicate"]
    rows = postgres.execute("select session_id, attempt, outcome::text from taskq.attempt")
    assert rows.fetchall() == [
        {"session_id": agent.session, "attempt": 1, "outcome": outcome} for _ in range(4)
    ]


def test_many_successes_on_pooled_and_own_tasks_count_together(
    pool: ScriptedPool, hire: Hire, postgres: Postgres
) -> None:
    """One call may report on both."""
    agent = hire()
    pooled, own = pool.lease(3), agent.claim(3)
    assert say(agent, *(report_of(task, DONE) for task in [*pooled, *own])) == ["accepted"] * 6
    rows = postgres.execute("select distinct session_id from taskq.attempt").fetchall()
    assert rows == [{"session_id": agent.session}]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("outcome", [DONE, FAILED, RELEASED])
def test_session_of_another_campaign_cannot_report_pooled_tasks(
    outcome: str, count: int, pool: ScriptedPool, hire: Hire, postgres: Postgres
) -> None:
    """Even if it has learned a lease, which the front does not tell."""
    postgres.execute("select taskq.create_campaign('/other')")
    stranger = hire("/other")
    stranger.campaign = pool.campaign
    leased = pool.lease(count)
    assert say(stranger, *(report_of(task, outcome) for task in leased)) == ["unknown"] * count
    assert stranger.heartbeat(leased) == {task.task for task in leased}
    assert all(task_row(postgres, task.task)["session_id"] == 0 for task in leased)


@pytest.mark.parametrize("count", [1, 3])
def test_ended_session_cannot_report_pooled_tasks(
    count: int, pool: ScriptedPool, hire: Hire, postgres: Postgres
) -> None:
    """A revocation ends sessions, and with them all that they may say."""
    agent = hire()
    leased = pool.lease(count)
    agent.leave()
    assert say(agent, *(report_of(task, DONE) for task in leased)) == ["unknown"] * count
    assert all(task_row(postgres, task.task)["status"] == "working" for task in leased)


def test_session_above_serves_pooled_tasks_below(
    queue: Client, database: Database, hire: Hire
) -> None:
    """An agent that serves a subtree gets the tasks of all campaigns in it."""
    below = servable(queue, "/up/down")
    below.submit({})
    pool = ScriptedPool(database, below.campaign_id)
    agent = hire("/up")
    agent.campaign = below.campaign_id
    assert say(agent, *(report_of(task, DONE) for task in pool.lease(1))) == ["accepted"]


def test_first_heartbeat_that_names_a_lease_gets_the_task(
    pool: ScriptedPool, hire: Hire, postgres: Postgres
) -> None:
    """From then on it lives with that session, and ends with it."""
    agent = hire()
    leased = pool.lease(2)
    assert agent.heartbeat(leased) == set()
    assert agent.heartbeat(leased) == set()
    assert {task_row(postgres, task.task)["session_id"] for task in leased} == {agent.session}
    assert agent.leave() == 2


def test_task_named_for_an_agent_that_vanishes_counts_as_lost(
    pool: ScriptedPool, database: Database, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """A task that kills its agents before their first beat does not go round for ever."""
    agent = hire()
    (task,) = pool.lease(1)
    name(database, agent, task)
    assert task_row(postgres, task.task)["session_id"] == agent.session
    silence(postgres, agent.session)
    assert expire(postgres) == 1
    assert campaign.status().losses == 1


@pytest.mark.parametrize("pool_s", [120.0, 4.0])
def test_task_named_for_an_agent_that_never_got_it_goes_back_after_the_deadline(
    pool: ScriptedPool,
    database: Database,
    campaign: Campaign,
    hire: Hire,
    postgres: Postgres,
    pool_s: float,
) -> None:
    """Not with a beat that may have been written before it was handed out; whatever clocks say."""
    postgres.execute("update taskq.front set pool_s = %s", [pool_s])
    agent = hire()
    (task,) = pool.lease(1)
    name(database, agent, task)
    late, early = "ffffffff-0001-7000-8000-000000000000", "00000000-0001-7000-8000-000000000000"
    agent.heartbeat([], drawn=late)
    assert task_row(postgres, task.task)["session_id"] == agent.session
    postgres.execute(
        "update taskq.task set claimed_at = claimed_at - make_interval(secs => %s + 1)", [pool_s]
    )
    agent.heartbeat([task], drawn=early)
    assert campaign.status().working == 1
    agent.heartbeat([], drawn=early)
    assert campaign.status().waiting == 10


def test_heartbeat_without_tasks_leaves_those_that_were_leased_ahead(
    pool: ScriptedPool, database: Database, hire: Hire, campaign: Campaign, postgres: Postgres
) -> None:
    """However old they are: the agent may be at work on them."""
    agent = hire()
    (task,) = pool.lease(1)
    name(database, agent, task)
    postgres.execute("update taskq.task set claimed_at = claimed_at - interval '1 day'")
    agent.heartbeat(None)
    assert campaign.status().working == 1
    agent.heartbeat([])
    assert campaign.status().working == 0


def test_task_is_not_named_for_a_session_that_may_not_have_it(
    pool: ScriptedPool, database: Database, queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """Neither one that has ended nor one of another campaign."""
    queue.create_campaign("/other")
    gone, stranger = hire(), hire("/other")
    gone.leave()
    (task,) = pool.lease(1)
    name(database, gone, task)
    name(database, stranger, task)
    assert task_row(postgres, task.task)["session_id"] == 0


def test_second_session_that_names_a_lease_is_ordered_to_stop(
    pool: ScriptedPool, hire: Hire
) -> None:
    """One agent executes an entry that was handed out twice; one result is accepted."""
    first, second = hire(), hire()
    (task,) = pool.lease(1)
    assert first.heartbeat([task]) == set()
    assert second.heartbeat([task]) == {task.task}
    assert say(second, report_of(task, DONE)) == ["unknown"]
    assert say(first, report_of(task, DONE)) == ["accepted"]


def test_result_of_an_entry_handed_out_twice_is_accepted_once(
    pool: ScriptedPool, hire: Hire
) -> None:
    """Anyone who reports first; the other's does not count."""
    first, second = hire(), hire()
    (task,) = pool.lease(1)
    assert say(second, report_of(task, DONE, result={"by": 2})) == ["accepted"]
    assert say(first, report_of(task, DONE, result={"by": 1})) == ["unknown"]
    assert first.heartbeat([task]) == {task.task}
