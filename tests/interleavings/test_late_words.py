"""A report meets whatever else can happen to its task at that moment.

Oban, Procrastinate and PanDA take a late finish by the job's id, or by an attempt number that may
be absent: the word of an old attempt flips the state of a job that was cancelled, retried or
removed since. Here the pair of task and lease decides, tested again when a wait for the row ends.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from taskq import Campaign
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, expire, silence, statuses, value
from tests.helpers.scripted_agent import Claimed, ScriptedAgent
from tests.interleavings.meeting import (
    calling,
    cancelling,
    claiming,
    in_turn,
    meet,
    reporting,
)

OUTCOMES = ["done", "failed", "released"]


def outcomes(campaign: Campaign, key: str) -> list[str]:
    return [attempt.outcome for attempt in campaign.attempts(key)]


def retrying(campaign: Campaign, status: str) -> Callable[[Postgres], int]:
    query = "select moved from taskq.retry(%s, %s::text::taskq.task_status, null, null, 0, 10)"
    return calling(query, campaign.campaign_id, status)


@pytest.mark.parametrize("second", OUTCOMES)
@pytest.mark.parametrize("first", OUTCOMES)
def test_of_two_reports_at_once_the_first_counts(
    first: str, second: str, held: list[Claimed], campaign: Campaign, dsn: str
) -> None:
    """The other waits for it; the same word is a duplicate, another is superseded."""
    met = meet(dsn, reporting(held[0], outcome=first), reporting(held[0], outcome=second))
    assert (met.waited, met.first) == (True, ["accepted"])
    assert met.second == ["duplicate" if first == second else "superseded"]
    assert outcomes(campaign, "a") == [first]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_report_whose_rival_was_undone_is_accepted(
    outcome: str, held: list[Claimed], campaign: Campaign, dsn: str
) -> None:
    """A gateway that died before its commit took nothing in; the repetition counts."""
    met = meet(dsn, reporting(held[0]), reporting(held[0], outcome=outcome), undo=True)
    assert met.second == ["accepted"]
    assert outcomes(campaign, "a") == [outcome]


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("undo", [False, True])
def test_report_that_meets_a_cancellation(
    undo: bool, outcome: str, held: list[Claimed], campaign: Campaign, dsn: str
) -> None:
    """It is superseded where that commits, and counts where it does not; never both."""
    met = meet(dsn, cancelling(campaign.campaign_id), reporting(*held, outcome=outcome), undo=undo)
    assert (met.waited, met.first) == (True, 2)
    assert met.second == ["accepted" if undo else "superseded"] * 2
    for key in "ab":
        assert outcomes(campaign, key) == [outcome if undo else "cancelled"]


@pytest.mark.parametrize(
    ("outcome", "cancelled"), [("done", 0), ("failed", 1), ("released", 1), ("unstarted", 1)]
)
def test_cancellation_that_meets_a_report_takes_what_that_leaves(
    outcome: str,
    cancelled: int,
    held: list[Claimed],
    campaign: Campaign,
    postgres: Postgres,
    dsn: str,
) -> None:
    """It waits, looks again, and records no attempt as cancelled that has ended otherwise."""
    unstarted = outcome == "unstarted"
    word = "released" if unstarted else outcome
    report = reporting(held[0], outcome=word, started=not unstarted)
    met = meet(dsn, report, cancelling(campaign.campaign_id))
    assert (met.waited, met.first, met.second) == (True, ["accepted"], cancelled + 1)
    assert outcomes(campaign, "a") == ([] if unstarted else [outcome])
    assert outcomes(campaign, "b") == ["cancelled"]
    assert statuses(postgres) == {"a": "cancelled" if cancelled else "done", "b": "cancelled"}


def test_cancellation_that_meets_an_undone_report_cancels_the_attempt(
    held: list[Claimed], campaign: Campaign, dsn: str
) -> None:
    """The agent's repetition is then superseded."""
    met = meet(dsn, reporting(held[0]), cancelling(campaign.campaign_id), undo=True)
    assert met.second == 2
    assert outcomes(campaign, "a") == ["cancelled"]


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("way", ["lost", "failed", "cancelled"])
def test_late_report_does_not_touch_a_task_that_is_being_retried(
    way: str,
    outcome: str,
    agent: ScriptedAgent,
    held: list[Claimed],
    campaign: Campaign,
    hire: Hire,
    postgres: Postgres,
    dsn: str,
) -> None:
    """Nor one that was handed out again in the same moment: a retry leaves the old lease behind."""
    postgres.execute("update taskq.campaign set max_losses = 1 where path = '/c'")
    if way == "lost":
        silence(postgres, agent.session)
        assert expire(postgres) == 2
        for _ in held:  # together they are not failed
            alone = hire()
            alone.claim(1)
            silence(postgres, alone.session)
            assert expire(postgres) == 1
    elif way == "failed":
        for task in held:
            agent.fail(task, retry=False)
    else:
        campaign.cancel(["a", "b"])
    status = "cancelled" if way == "cancelled" else "failed"
    other = hire()
    word = "done" if outcome == "failed" and way == "failed" else outcome
    act = in_turn(retrying(campaign, status), claiming(other, 1))
    met = meet(dsn, act, reporting(*held, outcome=word))
    assert met.first[0] == 2
    assert met.second == ["superseded"] * 2
    assert statuses(postgres) == {"a": "working", "b": "waiting"}
    assert other.done(met.first[1][0]) == "accepted"
    assert outcomes(campaign, "a") == [way, *(["lost"] if way == "lost" else []), "done"]


def test_two_retries_at_once_move_a_task_once(
    agent: ScriptedAgent, held: list[Claimed], campaign: Campaign, dsn: str
) -> None:
    """The second waits for the first, and finds nothing more to do."""
    for task in held:
        agent.fail(task, retry=False)
    act = retrying(campaign, "failed")
    met = meet(dsn, act, act)
    assert (met.waited, met.first, met.second) == (True, 2, 0)
    assert campaign.status().waiting == 2


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_report_that_meets_the_removal_of_its_task_is_unknown(
    outcome: str, held: list[Claimed], campaign: Campaign, postgres: Postgres, dsn: str
) -> None:
    """It leaves no record of an attempt behind."""
    postgres.execute("select taskq.set_status('/c', 'cancelled')")
    removal = calling("select moved from taskq.remove_tasks(%s, 0, 10)", campaign.campaign_id)
    met = meet(dsn, removal, reporting(*held, outcome=outcome))
    assert (met.waited, met.first, met.second) == (True, 2, ["unknown"] * 2)
    assert value(postgres, "select count(*) from taskq.attempt") == 0


def test_removal_that_meets_a_report_takes_its_record_along(
    held: list[Claimed], campaign: Campaign, postgres: Postgres, dsn: str
) -> None:
    """What commits while it waits is deleted with the rest."""
    postgres.execute("select taskq.set_status('/c', 'cancelled')")
    removal = calling("select moved from taskq.remove_tasks(%s, 0, 10)", campaign.campaign_id)
    met = meet(dsn, reporting(held[0]), removal)
    assert (met.waited, met.first, met.second) == (True, ["accepted"], 2)
    assert value(postgres, "select count(*) from taskq.attempt") == 0
