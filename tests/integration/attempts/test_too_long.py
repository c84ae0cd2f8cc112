"""Tasks that last longer than the time of the agents that are given them."""

from __future__ import annotations

import pytest

from taskq import Campaign, CampaignSpec, Client, RetryPolicy, Seed
from taskq_agent.protocol import OUT_OF_TIME, TOO_LONG
from tests.fixtures.queues import Hire
from tests.helpers.audit import assert_audit_is_clean
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, statuses, task_row
from tests.helpers.scripted_agent import Claimed, ScriptedAgent

pytestmark = pytest.mark.usefixtures("true_counts")

WORD = {"error_class": OUT_OF_TIME, "error": "its agent's time was up after 60 s of it"}


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give a campaign with the tasks a and b, of which three attempts may be out of time."""
    campaign = queue.create_campaign(CampaignSpec("/c", retry=RetryPolicy(max_out_of_time=3)))
    campaign.seed([Seed({"n": 1}, "a"), Seed({"n": 2}, "b", priority=-1)])
    return campaign


def cut_short(agent: ScriptedAgent, times: int) -> Claimed:
    """Claim the first task and hand it back for want of time, so often; return the last claim."""
    for _ in range(times):
        agent.forget_position()
        (task,) = agent.claim(1)
        assert agent.report(task, "released", **WORD) == "accepted"
    return task


def test_task_that_is_out_of_time_again_and_again_is_too_long(
    campaign: Campaign, hire: Hire, postgres: Postgres, queue: Client
) -> None:
    """It goes back as often as the campaign allows, then fails, with the evidence."""
    agent = hire()
    task = cut_short(agent, 2)
    assert statuses(postgres)["a"] == "waiting"
    assert task_row(postgres, task.task)["failures"] == 0
    cut_short(agent, 1)
    assert statuses(postgres) == {"a": "failed", "b": "waiting"}
    (failure,) = campaign.failures()
    assert (failure.error_class, failure.attempt) == (TOO_LONG, 3)
    assert failure.error is not None
    assert "out of time in 3 attempts (1, 2 before this one)" in failure.error
    assert "after 60 s of it" in failure.error
    assert [attempt.error_class for attempt in campaign.attempts("a")][:2] == [
        OUT_OF_TIME,
        OUT_OF_TIME,
    ]
    assert_audit_is_clean(queue, "/c")


def test_repeated_report_of_a_task_that_was_too_long_is_a_duplicate(
    campaign: Campaign, hire: Hire
) -> None:
    """As every other: also when the task has been retried, and is out of time again."""
    agent = hire()
    last = cut_short(agent, 3)
    assert agent.report(last, "released", **WORD) == "duplicate"
    assert campaign.retry(error_class=TOO_LONG) == 1
    first = cut_short(agent, 1)
    for task in (last, first):
        assert agent.report(task, "released", **WORD) == "duplicate"


def test_retried_task_may_be_out_of_time_as_often_again(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """What an operator has retried begins to count anew."""
    agent = hire()
    cut_short(agent, 3)
    assert campaign.retry(error_class=TOO_LONG) == 1
    cut_short(agent, 2)
    assert statuses(postgres)["a"] == "waiting"
    cut_short(agent, 1)
    assert statuses(postgres)["a"] == "failed"


def test_only_attempts_that_began_and_were_out_of_time_count(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Not those that were handed back otherwise, nor those that never began."""
    assert campaign.spec().retry.max_out_of_time == 3
    agent = hire()
    for details in (
        {"error_class": "stopped"},
        {**WORD, "started": False},
        {**WORD, "refused": True},
    ):
        for _ in range(4):
            agent.forget_position()
            (task,) = agent.claim(1)
            agent.report(task, "released", **details)
    cut_short(agent, 2)
    assert statuses(postgres)["a"] == "waiting"


def test_tasks_of_a_bundle_are_judged_each_by_itself(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Next to a success, and with tasks that have had unlike luck, in one exchange."""
    agent = hire()
    cut_short(agent, 2)
    agent.forget_position()
    first, second = agent.claim(2)
    reports = [
        {"task": task.task, "lease": task.lease, "outcome": "released", **WORD}
        for task in (first, second)
    ]
    assert agent.exchange(reports)["acks"] == ["accepted", "accepted"]
    assert statuses(postgres) == {"a": "failed", "b": "waiting"}
    assert campaign.status().failed == 1


def test_explain_names_what_is_too_long(campaign: Campaign, hire: Hire, dsn: str) -> None:
    """Before it fails, with what is left; afterwards, with what to do."""
    agent = hire()
    cut_short(agent, 2)
    reasons = {reason.code: reason for reason in campaign.explain("a").reasons}
    assert reasons["out-of-time"].figures["out_of_time"] == 2
    assert "after 3 times it fails as too-long" in reasons["out-of-time"].text
    cut_short(agent, 1)
    (reason,) = campaign.explain("a").reasons
    assert reason.code == "too-long"
    shown = CommandLine(dsn).out("explain", "/c", "a")
    assert "--max-out-of-time 6" in shown
    assert "too long" in shown
