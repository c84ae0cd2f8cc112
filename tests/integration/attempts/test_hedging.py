"""Hedging: second attempts of tasks that take far longer than others, at the end of a campaign."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from taskq import Campaign, CampaignSpec, Client, RetryPolicy, Seed
from taskq.db.connections import Database
from taskq.model.views import Hedges
from taskq.upkeep.keeper import keeping
from taskq_agent.protocol import DONE, FAILED, RELEASED
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import TRUE
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import (
    Postgres,
    expire,
    server_age_s,
    silence,
    statuses,
    task_row,
    value,
)
from tests.helpers.scripted_agent import Claimed, ScriptedAgent, report_of
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.usefixtures("true_counts")

SPEC = CampaignSpec("/c", handler=TRUE, late_results="salvage", hedge=0.05)
HEDGED = (1, "hedged", "hedged")
WON = (1, "done", "hedged")
Slow = Callable[..., Claimed]


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give a campaign that hedges, in which 25 tasks have ended, and one waits."""
    campaign = queue.create_campaign(SPEC)
    campaign.seed([*(Seed({}, f"k{n:02}") for n in range(25)), Seed({}, "slow")])
    return campaign


@pytest.fixture
def slow(campaign: Campaign, hire: Hire, postgres: Postgres) -> Slow:
    """Give a function by which the last task is claimed, alone or among others, an hour ago."""

    def run(**words: Any) -> Claimed:
        agent = hire(campaign.path, host="slow", **words)
        for task in agent.claim(25):
            assert agent.done(task) == "accepted"
        (task,) = agent.claim()
        assert task.key == "slow"
        long_ago(postgres)
        return task

    return run


def long_ago(postgres: Postgres) -> None:
    """Let all that is at work have been claimed an hour ago."""
    postgres.execute("update taskq.task set claimed_at = claimed_at - interval '1 h'")
    postgres.execute("update taskq.bundle set claimed_at = claimed_at - interval '1 h'")


def hedge(postgres: Postgres) -> Any:
    return value(postgres, "select taskq.hedge()")


def attempts(campaign: Campaign) -> list[tuple[int, str, str | None]]:
    return [(end.attempt, end.outcome, end.error_class) for end in campaign.attempts("slow")]


def test_slow_attempt_is_made_a_second_time_on_another_host(
    slow: Slow, hire: Hire, campaign: Campaign, postgres: Postgres
) -> None:
    """Anyone who is done first wins, here the second; the first counts as nothing."""
    first, other = slow(), hire(host="fast")
    assert hedge(postgres) == 1
    (again,) = other.claim()
    assert (again.key, again.attempt) == ("slow", 2)
    assert other.done(again) == "accepted"
    assert attempts(campaign) == [HEDGED, (2, "done", None)]
    status = campaign.status()
    assert (status.done, status.failures, status.losses) == (26, 0, 0)
    assert hire(host="slow").done(first) == "superseded"


def test_first_attempt_goes_on_and_wins_if_it_is_done_first(
    slow: Slow, hire: Hire, campaign: Campaign, postgres: Postgres
) -> None:
    """Its agent gets no order to stop; that of the second does."""
    agent = hire(host="slow")
    first, other = slow(), hire(host="fast")
    owner = reopened(agent, first, postgres)
    assert hedge(postgres) == 1
    (again,) = other.claim()
    assert owner.heartbeat([first]) == set()
    assert owner.done(first, {"by": "first"}) == "accepted"
    assert attempts(campaign) == [WON, (2, "cancelled", "salvaged")]
    assert other.heartbeat([again]) == {again.task}
    assert other.done(again) == "superseded"
    assert {result.key: result.result for result in campaign.results()}["slow"] == {"by": "first"}
    status = campaign.status()
    assert (status.done, status.failures, status.losses) == (26, 0, 0)


def reopened(agent: ScriptedAgent, task: Claimed, postgres: Postgres) -> ScriptedAgent:
    """Give a task that is at work to another session."""
    query = "update taskq.task set session_id = %s where task_id = %s"
    postgres.execute(query, [agent.session, task.task])
    return agent


def test_views_show_hedged_tasks_and_how_many_run_again(
    slow: Slow,
    hire: Hire,
    campaign: Campaign,
    queue: Client,
    postgres: Postgres,
    taskq: CommandLine,
) -> None:
    """Of the campaign and all above it; the attempt that waits does not run."""
    assert campaign.hedges() == Hedges(0, 0, [])
    assert "hedged" not in taskq.out("status", "/c")
    slow()
    other = hire(host="fast\x1b[2J")
    assert hedge(postgres) == 1
    assert campaign.hedges() == Hedges(1, 0, [])
    (again,) = other.claim()
    hedges = queue.campaign("/").hedges()
    assert hedges is not None
    (second,) = hedges.longest
    assert (hedges.hedged, hedges.running, second.campaign, second.key) == (1, 1, "/c", "slow")
    assert (second.host, second.first_host) == ("fast\x1b[2J", "slow")
    assert second.run_s < 3600 <= second.first_run_s
    assert queue.campaign("/").hedges(below=False) == Hedges(0, 0, [])
    text = taskq.out("status", "/c")
    assert "hedged     1 task had a second attempt; 1 at work again" in text
    assert "slow on fast" in text
    assert "\x1b[2J" not in text
    (hedged,) = taskq.json("status", "/c")["hedges"]["longest"]
    assert (hedged["key"], hedged["first_host"]) == ("slow", "slow")
    other.done(again)
    assert campaign.hedges() == Hedges(1, 0, [])


def test_agent_of_the_slower_attempt_is_ordered_to_stop(
    slow: Slow, hire: Hire, postgres: Postgres
) -> None:
    """The order comes with its next heartbeat after the other attempt was done."""
    agent = hire(host="slow")
    first, other = slow(), hire(host="fast")
    reopened(agent, first, postgres)
    assert hedge(postgres) == 1
    assert agent.heartbeat([first]) == set()
    other.done(other.claim()[0])
    assert agent.heartbeat([first]) == {first.task}


@pytest.mark.parametrize("outcome", [FAILED, RELEASED])
def test_only_success_of_a_hedged_attempt_counts(
    outcome: str, slow: Slow, hire: Hire, campaign: Campaign, postgres: Postgres
) -> None:
    """Else the other attempt decides alone."""
    first, other = slow(), hire(host="fast")
    assert hedge(postgres) == 1
    (again,) = other.claim()
    assert hire(host="slow").report(first, outcome) == "superseded"
    assert other.done(again) == "accepted"
    assert attempts(campaign) == [HEDGED, (2, "done", None)]


def test_failure_of_the_second_attempt_leaves_it_to_the_first(
    slow: Slow, hire: Hire, campaign: Campaign, postgres: Postgres
) -> None:
    """The task waits for its time, and the first one is done meanwhile."""
    first, other = slow(), hire(host="fast")
    assert hedge(postgres) == 1
    other.fail(other.claim()[0])
    assert statuses(postgres)["slow"] == "delayed"
    assert other.done(first) == "accepted"
    assert attempts(campaign) == [WON, (2, "failed", "Boom")]


def test_lost_agents_of_both_attempts_cost_one_loss(
    slow: Slow, hire: Hire, campaign: Campaign, postgres: Postgres
) -> None:
    """The first had no lease any more, and is waited for by nobody."""
    agent, first, other = hire(host="slow"), slow(), hire(host="fast")
    reopened(agent, first, postgres)
    assert hedge(postgres) == 1
    other.claim()
    silence(postgres, agent.session)
    silence(postgres, other.session)
    assert expire(postgres) == 1
    assert attempts(campaign) == [HEDGED, (2, "lost", "agent-lost")]
    assert campaign.status().losses == 1


def test_second_attempt_goes_to_another_host_first(
    slow: Slow, hire: Hire, postgres: Postgres
) -> None:
    """As does what has failed: after two minutes any host may have it."""
    slow()
    alike, other = hire(host="slow"), hire(host="fast")
    assert hedge(postgres) == 1
    assert alike.claim() == []
    postgres.execute("update taskq.task set due_at = due_at - interval '2 min'")
    alike.forget_position()
    assert [task.key for task in alike.claim()] == ["slow"]
    assert other.claim() == []


def test_task_is_hedged_once(slow: Slow, hire: Hire, postgres: Postgres) -> None:
    """However slow the second attempt is."""
    slow()
    other, third = hire(host="fast"), hire(host="third")
    assert hedge(postgres) == 1
    other.claim()
    long_ago(postgres)
    assert hedge(postgres) == 0
    assert third.claim() == []


def test_attempts_that_have_begun_together_are_hedged_one_by_one(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """The rest of a bundle stays with its agent."""
    agent, other = hire(campaign.path, host="slow"), hire(host="fast", slots=1)
    for task in agent.claim(23):
        agent.done(task)
    assert len(agent.claim(3)) == 3
    long_ago(postgres)
    assert hedge(postgres) == 1
    assert [task.key for task in other.claim(9)] == ["k23"]
    assert hedge(postgres) == 0  # nobody is idle


def test_no_more_than_the_share_is_hedged(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Of 26 tasks two, with a share of a twentieth."""
    agent, _ = hire(host="slow"), hire(host="fast", slots=100)
    for task in agent.claim(21):
        agent.done(task)
    assert len(agent.claim(5)) == 5
    long_ago(postgres)
    assert hedge(postgres) == 2
    assert campaign.status().waiting == 2


UNFIT = {
    "nobody": None,
    "the same host": {"host": "slow"},
    "a nameless host": {"host": ""},
    "a scope elsewhere": {"host": "fast", "path": "/d"},
}


@pytest.mark.parametrize("who", UNFIT)
def test_nothing_is_hedged_where_no_other_host_idles(
    who: str, slow: Slow, hire: Hire, queue: Client, postgres: Postgres
) -> None:
    """Nobody could take it who is not at the same place."""
    queue.create_campaign("/d")
    slow(slots=4)
    if UNFIT[who] is not None:
        hire(**UNFIT[who])
    assert hedge(postgres) == 0


HINDRANCES = {
    "draining": "update taskq.session set drain = true where host = 'fast'",
    "slowed": """update taskq.session set said = '{"trouble":{"failures":8}}' where host='fast'""",
    "suspicious": "update taskq.session set suspect = 'why' where host = 'fast'",
    "silent": """update taskq.session set heartbeat_at = '-infinity', lease_s = 1 where host <> '';
                 update taskq.serving set since = since - interval '1 h'""",
    "tags": "update taskq.campaign set tags = '{gpu}' where path = '/c'",
    "paused": "update taskq.campaign set status = 'paused' where path = '/c'",
    "paused above": "update taskq.campaign set status = 'paused' where path = '/'",
    "not asked for": "update taskq.campaign set hedge = null where path = '/c'",
    "one attempt": "update taskq.campaign set max_attempts = 1 where path = '/c'",
    "not slow": "update taskq.task set claimed_at = now() + interval '1 min'",
    "nothing learnt": "update taskq.attempt set outcome = 'failed' where task_id % 2 = 0",
    "all are slow": "update taskq.attempt set claimed_at = ended_at - interval '2 h'",
}


@pytest.mark.parametrize("why", HINDRANCES)
def test_nothing_is_hedged_for_nothing(
    why: str, slow: Slow, hire: Hire, postgres: Postgres
) -> None:
    """All conditions must hold; without the hindrance it is hedged."""
    wait_until(lambda: server_age_s(postgres) > 1)  # before that, nobody counts as silent
    slow()
    hire(host="fast")
    with psycopg.connect(postgres.info.dsn) as other:
        other.execute(HINDRANCES[why].encode())
        assert other.execute("select taskq.hedge()").fetchone() == (0,)
        other.rollback()
    assert hedge(postgres) == 1


def test_nothing_is_hedged_while_something_waits(
    slow: Slow, hire: Hire, campaign: Campaign, queue: Client, postgres: Postgres
) -> None:
    """In the campaign, or in another one that the idle agents serve."""
    unrelated = queue.create_campaign(CampaignSpec("/d", handler=TRUE))
    slow()
    hire("/", host="fast")
    unrelated.seed([Seed({}, "first")])
    assert hedge(postgres) == 0
    unrelated.cancel()
    campaign.seed([Seed({}, "new")])
    assert hedge(postgres) == 0
    assert value(postgres, "select count(*) from taskq.ending_campaigns(64)") == 0
    campaign.cancel(keys=["new"])
    assert hedge(postgres) == 1


def test_hedged_attempt_may_win_after_its_campaign_stops_hedging(
    slow: Slow, hire: Hire, campaign: Campaign, postgres: Postgres
) -> None:
    """An attempt that goes on next to another one was promised that it may win."""
    first = slow()
    hire(host="fast")
    assert hedge(postgres) == 1
    campaign.change(CampaignSpec("/c", handler=TRUE, late_results="salvage"))
    assert hire(host="slow").done(first) == "accepted"


def test_cancelled_task_is_not_won_by_its_first_attempt(
    slow: Slow, hire: Hire, campaign: Campaign, postgres: Postgres
) -> None:
    """An operator's word holds for both."""
    first = slow()
    hire(host="fast")
    assert hedge(postgres) == 1
    assert campaign.cancel(keys=["slow"]) == 1
    assert hire(host="slow").done(first) == "superseded"


def test_agent_cannot_say_hedged(slow: Slow, hire: Hire, campaign: Campaign) -> None:
    """What is not an end that an agent may report changes nothing; a class is but a word."""
    first = slow()
    agent = hire(host="slow")
    assert agent.exchange([report_of(first, "hedged")])["acks"] == ["superseded"]
    assert agent.report(first, RELEASED, error_class="hedged") == "accepted"
    assert agent.report(first, DONE) == "superseded"
    assert attempts(campaign) == [(1, "released", "hedged")]


def test_hedged_attempt_records_the_times_that_decided(
    slow: Slow, hire: Hire, campaign: Campaign, postgres: Postgres
) -> None:
    """The attempt has the times that decided."""
    slow()
    hire(host="fast")
    assert hedge(postgres) == 1
    (attempt,) = campaign.attempts("slow")
    words = r"at work for 3[67]\d\d s; nine of ten of the latest took \d+ s at most"
    assert re.fullmatch(words, attempt.error or "")


@pytest.mark.thorough
def test_keeper_hedges(slow: Slow, hire: Hire, database: Database, postgres: Postgres) -> None:
    """In one round of four, as it judges hosts."""
    first = slow()
    hire(host="fast")
    with keeping(database):
        wait_until(lambda: task_row(postgres, first.task)["status"] == "waiting", timeout_s=120)


@pytest.mark.usefixtures("campaign")
def test_database_refuses_hedging_with_settings_that_exclude_it(postgres: Postgres) -> None:
    """Whichever client asks."""
    change = "select taskq.change_campaign('/c', %s)"
    for spec in ({"late_results": "reject"}, {"max_running": 3}, {"hedge": 0}, {"hedge": 1.1}):
        with pytest.raises(psycopg.errors.CheckViolation):
            postgres.execute(change, [json.dumps(spec)])


def test_retried_task_fails_by_its_last_failure_alone(
    slow: Slow, hire: Hire, campaign: Campaign, postgres: Postgres
) -> None:
    """A task that the next failure ends is not hedged: its first attempt may yet succeed."""
    slow()
    hire(host="fast")
    policy = RetryPolicy(max_attempts=2)
    campaign.change(CampaignSpec("/c", handler=TRUE, retry=policy, late_results="salvage", hedge=1))
    postgres.execute("update taskq.task set failures = 1")
    assert hedge(postgres) == 0
    postgres.execute("update taskq.task set failures = 0")
    assert hedge(postgres) == 1
