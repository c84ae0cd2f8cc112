"""Exchanges that report a success and claim a task, which have a statement of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from taskq import Campaign, Client
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres, value
from tests.helpers.scripted_agent import Claimed, ScriptedAgent, report_of
from tests.interleavings.meeting import meet


@pytest.fixture(autouse=True)
def _sound(true_counts: None) -> None:
    """Compare the counts with a recount."""


@pytest.fixture
def agent(campaign: Campaign, hire: Hire) -> ScriptedAgent:
    """Give an agent, for whom 640 tasks wait in spans of twenty."""
    campaign.seed({"n": n} for n in range(640))
    return hire()


def next_of(agent: ScriptedAgent, task: Claimed, **details: Any) -> Claimed | None:
    """Report a task as done and claim one; return it, or None."""
    answer = agent.exchange([report_of(task, "done", **details)], 1)
    assert answer["acks"] == ["accepted"]
    return next(iter(agent.claimed(answer)), None)


def exchanging(
    agent: ScriptedAgent, task: Claimed, lease: str
) -> Callable[[Postgres], dict[str, Any]]:
    """Return an act that reports a task as done and claims one; its result is the row."""

    def exchange(connection: Postgres) -> dict[str, Any]:
        row = connection.execute(
            "select acks, tasks from taskq.exchange_one(%s, %s, %s, %s)",
            [agent.campaign, json.dumps([report_of(task, "done")]), agent.session, lease],
        ).fetchone()
        assert row is not None
        return row

    return exchange


def test_every_task_is_done_once_in_its_turn(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """Each with its attempt as reported, also where a span ends, and nothing is left."""
    (task,) = agent.claim(1)
    order = [task.task]
    while got := next_of(agent, task, result={"n": task.task}, exit_code=0, tail="t"):
        task = got
        order.append(task.task)
    assert order == sorted(set(order))
    assert campaign.status().done == len(order) == 640
    kept = "select count(*) from taskq.attempt where (result ->> 'n')::bigint = task_id"
    right = " and session_id = %s and attempt = 1 and outcome = 'done' and exit_code = 0"
    assert (
        value(postgres, kept + right + " and tail = 't' and phases is null", agent.session) == 640
    )


def test_repeated_exchange_gets_the_same_task(agent: ScriptedAgent, campaign: Campaign) -> None:
    """Though an accepted report spares the look for the lease."""
    (task,) = agent.claim(1)
    lease = agent.draw_lease()
    first = agent.exchange([report_of(task, "done")], 1, lease=lease)
    again = agent.exchange([report_of(task, "done")], 1, lease=lease)
    assert (first["acks"], again["acks"]) == (["accepted"], ["duplicate"])
    assert agent.claimed(again) == agent.claimed(first)
    assert campaign.status().working == 1


def test_exchange_that_is_repeated_before_it_commits_gets_the_same_task(
    agent: ScriptedAgent, campaign: Campaign, dsn: str
) -> None:
    """The attempt that both end makes the second wait."""
    (task,) = agent.claim(1)
    lease = agent.draw_lease()
    met = meet(dsn, exchanging(agent, task, lease), exchanging(agent, task, lease))
    assert met.waited
    assert (met.first["acks"], met.second["acks"]) == (["accepted"], ["duplicate"])
    assert met.second["tasks"] == met.first["tasks"]
    assert campaign.status().working == 1


@pytest.mark.parametrize("anew", [False, True])
def test_connections_in_one_span_do_not_wait(
    anew: bool, agent: ScriptedAgent, hire: Hire, dsn: str, campaign: Campaign
) -> None:
    """The second takes its task from another span, also if both begin anew at the first one."""
    other = hire()
    held = {hired.session: hired.claim(1)[0] for hired in (agent, other)}
    with (
        psycopg.connect(dsn, row_factory=dict_row, autocommit=True) as early,
        psycopg.connect(dsn, row_factory=dict_row, autocommit=True) as late,
    ):
        late.execute("set lock_timeout = '20s'")

        def act(hired: ScriptedAgent, connection: Postgres) -> None:
            row = exchanging(hired, held[hired.session], hired.draw_lease())(connection)
            (held[hired.session],) = hired.claimed(row)

        for hired, connection in ((agent, early), (other, late)) * 2:  # they come to one position
            act(hired, connection)
            if anew:
                connection.execute(f"set taskq.position_{agent.campaign} = ''")
        with early.transaction():
            act(agent, early)
            act(other, late)
    assert held[agent.session].task != held[other.session].task
    assert campaign.status().working == 2


@pytest.mark.parametrize("outcome", ["done", "failed"])
def test_report_of_another_session_is_unknown(
    outcome: str, agent: ScriptedAgent, hire: Hire, campaign: Campaign
) -> None:
    """A gateway says whose report it is; the claim is answered all the same."""
    (task,) = agent.claim(1)
    stranger = hire()
    report = report_of(task, outcome, session=stranger.session, error_class="x", retry=True)
    answer = stranger.exchange([report], 1)
    # Neither agent has a token, by which one might report for the other.
    assert answer["acks"] == ["unknown"]
    assert len(stranger.claimed(answer)) == 1
    assert (campaign.status().done, campaign.status().working) == (0, 2)


def test_paused_campaign_gives_nothing(agent: ScriptedAgent, campaign: Campaign) -> None:
    """It takes the report."""
    (task,) = agent.claim(1)
    campaign.pause()
    assert next_of(agent, task) is None
    assert (campaign.status().done, campaign.status().working) == (1, 0)


def test_connection_takes_nothing_from_a_span_that_was_cancelled(
    agent: ScriptedAgent, postgres: Postgres
) -> None:
    """While the campaign is being cancelled step by step: the first takes a span and a task."""
    tasks = agent.claim_singly(3)
    postgres.execute("select taskq.cancel(%s, null, 0, 1)", [agent.campaign])
    got = next_of(agent, tasks[2])
    assert got is not None
    cancelled = "select max(last_id) from taskq.span where status = 'cancelled'"
    assert got.task > value(postgres, cancelled) > tasks[2].task


def test_agent_gets_nothing_that_requires_more_than_it_offers(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """Also if the campaign did not require it when the agent claimed before."""
    campaign = servable(queue, "/large", requires=["mem>=8"])
    campaign.seed({"n": n} for n in range(640))
    small, fit = hire("/large", offers=["mem=8"]), hire("/large", offers=["mem=16"])
    tasks = [next_of(hired, hired.claim(1)[0]) for hired in (small, fit)]
    assert None not in tasks
    postgres.execute("update taskq.campaign set tags = '{mem>=16}' where path = '/large'")
    got = [next_of(hired, task) for hired, task in zip((small, fit), tasks, strict=True) if task]
    assert [task is None for task in got] == [True, False]


def test_limit_of_running_tasks_holds(queue: Client, hire: Hire) -> None:
    """The place of the task that has ended is free again."""
    campaign = servable(queue, "/few", max_running=1)
    campaign.seed({"n": n} for n in range(9))
    first, second = hire("/few"), hire("/few")
    (task,) = first.claim(1)
    assert second.claim(1) == []
    assert next_of(first, task) is not None
    assert (campaign.status().done, campaign.status().working) == (1, 1)


def test_task_that_was_handed_back_is_claimed_first(agent: ScriptedAgent, hire: Hire) -> None:
    """At the latest when the connection gives its position up."""
    other = hire()
    task, back = agent.claim(1)[0], other.claim(1)[0]
    assert other.release(back, started=False) == "accepted"
    agent.forget_position()
    got = next_of(agent, task)
    assert got is not None
    assert got.task == back.task


def test_gap_between_tasks_is_passed_over(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres
) -> None:
    """Ids need not follow each other."""
    (task,) = agent.claim(1)
    gap = [campaign.campaign_id, task.task + 1]
    postgres.execute("delete from taskq.spec where campaign_id = %s and task_id = %s", gap)
    # The counts must have the damage, too.
    postgres.execute("insert into taskq.delta (campaign_id, waiting) values (%s, -1)", gap[:1])
    got = next_of(agent, task)
    assert got is not None
    assert got.task == task.task + 2
