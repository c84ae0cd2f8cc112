"""A second attempt is let while something else happens to the task, or to its campaign.

Anyone who lets it waits for nobody: what is locked is in other hands, and it is called again soon.
What waits for it looks again, and finds a lease that is the task's no more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from taskq import Campaign, CampaignSpec, Client
from taskq.db.stored_spec import spec_body
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import TRUE
from tests.helpers.postgres import Postgres, expire, silence, statuses
from tests.helpers.scripted_agent import Claimed, ScriptedAgent, report_of
from tests.interleavings.meeting import (
    EXPIRE,
    calling,
    cancelling,
    claiming,
    in_order,
    in_turn,
    meet,
    reporting,
    telling,
)

SPEC = CampaignSpec("/c", handler=TRUE, late_results="salvage", hedge=0.5)
HEDGED, WON = ("hedged", "hedged"), ("done", "hedged")


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give a campaign that hedges."""
    return queue.create_campaign(SPEC)


def hedging(task: Claimed) -> Callable[[Postgres], Any]:
    """Return an act that lets a second attempt be made of a task, and returns whether it did."""
    query = "select taskq.hedge_task(%s, %s, %s, 'slow')"
    return calling(query, task.campaign, task.task, task.lease)


def attempts(campaign: Campaign, key: str = "a") -> list[tuple[str, str | None]]:
    return [(attempt.outcome, attempt.error_class) for attempt in campaign.attempts(key)]


def test_tasks_with_one_failure_left_or_already_hedged_are_not_hedged(
    agent: ScriptedAgent, held: list[Claimed], postgres: Postgres
) -> None:
    """A task that one more failure ends, and one that another statement has hedged."""
    postgres.execute("update taskq.task set failures = 2")
    assert not hedging(held[0])(postgres)
    postgres.execute("update taskq.task set failures = 0")
    assert hedging(held[0])(postgres)
    postgres.execute("update taskq.task set avoids = null")
    agent.forget_position()
    (again,) = agent.claim()
    assert not hedging(again)(postgres)


@pytest.mark.parametrize("undo", [False, True])
def test_success_that_meets_a_hedge_counts(
    undo: bool, held: list[Claimed], campaign: Campaign, dsn: str
) -> None:
    """It waits, and is in time or salvaged."""
    met = meet(dsn, hedging(held[0]), reporting(held[0]), undo=undo)
    assert (met.waited, met.first, met.second) == (True, True, ["accepted"])
    assert attempts(campaign) == [("done", None) if undo else WON]


@pytest.mark.parametrize("outcome", ["failed", "released"])
def test_other_report_that_meets_a_hedge_is_superseded(
    outcome: str, held: list[Claimed], campaign: Campaign, postgres: Postgres, dsn: str
) -> None:
    """The second attempt decides alone."""
    met = meet(dsn, hedging(held[0]), reporting(held[0], outcome=outcome))
    assert (met.waited, met.second) == (True, ["superseded"])
    assert attempts(campaign) == [HEDGED]
    assert statuses(postgres)["a"] == "waiting"


@pytest.mark.parametrize("outcome", ["done", "failed", "released"])
def test_hedge_that_meets_a_report_changes_nothing(
    outcome: str, held: list[Claimed], campaign: Campaign, dsn: str
) -> None:
    """It passes over the locked row."""
    met = meet(dsn, reporting(held[0], outcome=outcome), hedging(held[0]))
    assert (met.waited, met.first, met.second) == (False, ["accepted"], False)
    assert [attempt for attempt, _ in attempts(campaign)] == [outcome]


def test_hedge_passes_over_a_bundle_that_is_reported_on(
    agent: ScriptedAgent, campaign: Campaign, dsn: str
) -> None:
    """Although that is about another task of it; later it takes its own out."""
    tasks = agent.claim(2)
    met = meet(dsn, reporting(tasks[1]), hedging(tasks[0]))
    assert (met.waited, met.second) == (False, False)
    met = meet(dsn, hedging(tasks[0]), reporting(tasks[0]))
    assert (met.waited, met.second) == (True, ["accepted"])
    assert attempts(campaign) == [WON]


def test_two_hedges_of_a_campaign_do_not_meet(held: list[Claimed], dsn: str) -> None:
    """So that no more are hedged than the campaign allows; nor is one task hedged twice."""
    met = meet(dsn, hedging(held[0]), hedging(held[1]))
    assert (met.waited, met.first, met.second) == (False, True, False)
    met = meet(dsn, hedging(held[1]), hedging(held[1]))
    assert (met.waited, met.first, met.second) == (False, True, False)


def test_expiry_that_meets_a_hedge_loses_the_others(
    agent: ScriptedAgent, held: list[Claimed], campaign: Campaign, postgres: Postgres, dsn: str
) -> None:
    """What was hedged is not lost as well, nor later."""
    silence(postgres, agent.session)
    met = meet(dsn, hedging(held[0]), EXPIRE)
    assert (met.waited, met.first, met.second) == (False, True, 1)
    assert expire(postgres) == 0
    assert (attempts(campaign), attempts(campaign, "b")) == ([HEDGED], [("lost", "agent-lost")])


def test_hedge_that_meets_an_expiry_changes_nothing(
    agent: ScriptedAgent, held: list[Claimed], campaign: Campaign, postgres: Postgres, dsn: str
) -> None:
    """The attempt is lost."""
    silence(postgres, agent.session)
    met = meet(dsn, EXPIRE, hedging(held[0]))
    assert (met.waited, met.first, met.second) == (False, 2, False)
    assert attempts(campaign) == [("lost", "agent-lost")]


@pytest.mark.parametrize("undo", [False, True])
def test_of_two_attempts_that_succeed_at_once_the_first_counts(
    undo: bool, held: list[Claimed], campaign: Campaign, hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """Whichever it is, the other waits and is superseded."""
    other = hire(host="other")
    assert hedging(held[0])(postgres) is True
    (again,) = other.claim()
    met = meet(dsn, reporting(held[0]), reporting(again), undo=undo)
    assert (met.waited, met.first) == (True, ["accepted"])
    assert met.second == ["accepted" if undo else "superseded"]
    expected = [HEDGED, ("done", None)] if undo else [WON, ("cancelled", "salvaged")]
    assert attempts(campaign) == expected


def test_two_attempts_that_succeed_in_one_statement(
    held: list[Claimed], campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """What comes in time is taken in first."""
    assert hedging(held[0])(postgres) is True
    (again,) = hire(host="other").claim()
    verdicts = telling(again.campaign, [report_of(held[0], "done"), report_of(again, "done")])
    assert verdicts(postgres) == ["superseded", "accepted"]
    assert attempts(campaign) == [HEDGED, ("done", None)]


@pytest.mark.parametrize("undo", [False, True])
def test_late_success_and_a_hedge_of_another_task_do_not_wait_for_each_other(
    undo: bool, held: list[Claimed], campaign: Campaign, postgres: Postgres, dsn: str
) -> None:
    """Of the same campaign, whose row both lock: a keeper hedges many in one transaction."""
    assert hedging(held[1])(postgres) is True
    met = meet(dsn, hedging(held[0]), reporting(held[1]), undo=undo)
    assert (met.waited, met.first, met.second) == (False, True, ["accepted"])
    assert (attempts(campaign), attempts(campaign, "b")) == ([] if undo else [HEDGED], [WON])


def test_hedge_of_another_task_goes_on_next_to_a_late_success(
    held: list[Claimed], campaign: Campaign, postgres: Postgres, dsn: str
) -> None:
    """A campaign with many late results is still hedged."""
    assert hedging(held[1])(postgres) is True
    met = meet(dsn, reporting(held[1]), hedging(held[0]))
    assert (met.waited, met.first, met.second) == (False, ["accepted"], True)
    assert (attempts(campaign), attempts(campaign, "b")) == ([HEDGED], [WON])


def test_batch_with_a_success_of_a_hedged_attempt_locks_in_the_order_of_tasks(
    held: list[Claimed], postgres: Postgres, dsn: str
) -> None:
    """As with what was lost: else it would hold b while it waits for a, and others the reverse."""
    assert hedging(held[0])(postgres) is True
    assert in_order(dsn, held, reporting(held[1], held[0])) == ["accepted"] * 2


def test_claim_that_meets_a_hedge_gets_nothing_yet(
    held: list[Claimed], hire: Hire, dsn: str
) -> None:
    """It waits for nobody, and the next one gets the task."""
    other = hire(host="other")
    met = meet(dsn, hedging(held[0]), claiming(other))
    assert (met.waited, met.second) == (False, [])
    other.forget_position()
    assert [task.key for task in other.claim()] == ["a"]


@pytest.mark.parametrize("undo", [False, True])
def test_cancellation_that_meets_a_hedge_cancels_the_task(
    undo: bool, held: list[Claimed], campaign: Campaign, dsn: str
) -> None:
    """It waits; neither attempt counts then."""
    met = meet(dsn, hedging(held[0]), cancelling(campaign.campaign_id), undo=undo)
    assert (met.waited, met.second) == (True, 2)
    assert attempts(campaign) == [("cancelled", None) if undo else HEDGED]


def test_campaign_that_stops_to_salvage_is_not_hedged_meanwhile(
    held: list[Claimed], campaign: Campaign, dsn: str
) -> None:
    """Else the first attempt would go on, and could not win."""
    stop = replace(SPEC, late_results="reject", hedge=None)
    changing = calling("select taskq.change_campaign('/c', %s)", spec_body(stop))
    met = meet(dsn, changing, hedging(held[0]))
    assert (met.waited, met.second) == (False, False)
    assert attempts(campaign) == []


def test_hedges_in_turn_keep_the_counts(held: list[Claimed], campaign: Campaign, dsn: str) -> None:
    """Two tasks in one transaction, next to a report on both."""
    both = in_turn(hedging(held[0]), hedging(held[1]))
    met = meet(dsn, both, reporting(*held))
    assert (met.waited, met.first, met.second) == (True, [True, True], ["accepted"] * 2)
    assert (attempts(campaign), attempts(campaign, "b")) == ([WON], [WON])
    assert campaign.status().done == 2
