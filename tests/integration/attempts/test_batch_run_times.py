"""Run times of tasks of one start: their shares of it, never the time from claim to report."""

from __future__ import annotations

import json

import pytest

from taskq import Campaign, CampaignSpec, Client, Handler, Seed
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, value
from tests.helpers.scripted_agent import ScriptedAgent

RUN_S = 2.0


@pytest.fixture
def agent(queue: Client, hire: Hire, postgres: Postgres) -> ScriptedAgent:
    """Give an agent that claimed 100 tasks an hour ago; each of the first 40 took two seconds."""
    handler = Handler("command", argv=("x",), batch=100)
    campaign = queue.create_campaign(CampaignSpec("/c", handler=handler))
    campaign.seed(Seed({}, f"t{n:03}") for n in range(300))
    agent = hire()
    tasks = agent.claim(100)
    postgres.execute("update taskq.bundle set claimed_at = claimed_at - interval '1 h'")
    for task in tasks[:40]:
        agent.report(task, "done", result={"n": 1}, phases={"wait_s": 9.0, "run_s": RUN_S})
    return agent


@pytest.fixture
def campaign(queue: Client, agent: ScriptedAgent) -> Campaign:
    assert agent.session
    return queue.campaign("/c")


def test_usual_run_time_is_that_of_a_task_and_not_of_its_start(campaign: Campaign) -> None:
    """Those that wait in the start do not count as running for an hour."""
    assert campaign.usual_run_s() == pytest.approx(RUN_S)


def test_pilots_count_the_time_of_a_whole_start(campaign: Campaign, postgres: Postgres) -> None:
    demand = "select usual_s from taskq.pilot_demand('/c', '{}', 1e6)"
    assert value(postgres, demand) == pytest.approx(100 * RUN_S)
    campaign.cancel(keys=[f"t{n:03}" for n in range(100, 290)])
    assert value(postgres, demand) == pytest.approx(10 * RUN_S)


def test_forecast_does_not_take_waiting_tasks_of_a_start_for_running_ones(
    campaign: Campaign,
) -> None:
    """One slot ends a task in two seconds, so 260 take about nine minutes."""
    span = campaign.forecast().span
    assert campaign.status().working == 60
    assert span is not None
    assert span.s >= 260 * RUN_S * 0.9


def test_hosts_are_compared_by_shares(campaign: Campaign, postgres: Postgres) -> None:
    longest = "select max(run_s) from taskq.attempt_sample('/c', 1000)"
    assert value(postgres, longest) == pytest.approx(RUN_S)
    assert value(postgres, "select count(*) from taskq.overdue('/c', 9)") == 0
    assert value(postgres, "select taskq.slow_after(%s)", campaign.campaign_id) is None


def test_exports_and_histories_show_the_share(
    campaign: Campaign, postgres: Postgres, taskq: CommandLine
) -> None:
    lines = value(postgres, "select lines from taskq.results_text(%s, 0, 9)", campaign.campaign_id)
    assert {json.loads(line)["seconds"] for line in lines.splitlines()} == {RUN_S}
    assert "done after 2.0 s" in taskq.out("logs", "/c", "t000")
    assert "after 2.0 s" in taskq.out("history", "/c", "t000")
