"""A late result meets whatever else happens to its task at that moment.

Two transactions each hold what they have read: the second one waits for the row, looks again,
and decides by what the first has left.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from taskq import Campaign, CampaignSpec, Client, RetryPolicy
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, expire, silence, statuses
from tests.helpers.scripted_agent import Claimed, ScriptedAgent, report_of
from tests.interleavings.meeting import (
    EXPIRE,
    calling,
    cancelling,
    claiming,
    in_order,
    locking,
    meet,
    reporting,
)


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give a campaign that salvages late results, given up after two losses."""
    policy = RetryPolicy(max_attempts=1, max_losses=2, max_lost_hosts=100)
    return queue.create_campaign(CampaignSpec("/c", retry=policy, late_results="salvage"))


@pytest.fixture
def lost(agent: ScriptedAgent, postgres: Postgres) -> list[Claimed]:
    """Give two attempts, on a and on b, that were given up."""
    tasks = agent.claim(2)
    silence(postgres, agent.session)
    assert expire(postgres) == 2
    return tasks


def attempts(campaign: Campaign, key: str = "a") -> list[tuple[str, str | None]]:
    return [(attempt.outcome, attempt.error_class) for attempt in campaign.attempts(key)]


SALVAGED = ("done", "agent-lost")


@pytest.mark.parametrize("undo", [False, True])
def test_of_two_leases_salvaged_at_once_the_first_counts(
    undo: bool, lost: list[Claimed], campaign: Campaign, hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """The other waits, and is superseded if the first commits."""
    other = hire()
    (again,) = other.claim(1)
    silence(postgres, other.session)
    assert expire(postgres) == 1
    met = meet(dsn, reporting(lost[0]), reporting(again), undo=undo)
    assert (met.waited, met.first) == (True, ["accepted"])
    assert met.second == ["accepted" if undo else "superseded"]
    lost_one = ("lost", "agent-lost")
    assert attempts(campaign) == ([lost_one, SALVAGED] if undo else [SALVAGED, lost_one])


@pytest.mark.parametrize("undo", [False, True])
def test_late_result_that_is_sent_twice_at_once_counts_once(
    undo: bool, lost: list[Claimed], campaign: Campaign, dsn: str
) -> None:
    """The second is a duplicate of the first, if that commits."""
    met = meet(dsn, reporting(lost[0]), reporting(lost[0]), undo=undo)
    assert met.second == ["accepted" if undo else "duplicate"]
    assert attempts(campaign) == [SALVAGED]


def test_late_result_that_meets_a_claim_ends_the_new_attempt(
    lost: list[Claimed], campaign: Campaign, hire: Hire, dsn: str
) -> None:
    """It waits for the claim and finds the task at work."""
    other = hire()
    met = meet(dsn, claiming(other), reporting(lost[0]))
    assert (met.waited, met.second) == (True, ["accepted"])
    assert attempts(campaign) == [SALVAGED, ("cancelled", "salvaged")]
    assert other.heartbeat(met.first) == {lost[0].task}


def test_claim_that_meets_a_late_result_gets_another_task(
    lost: list[Claimed], hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """It passes over the locked row, and nobody waits."""
    met = meet(dsn, reporting(lost[0]), claiming(hire()))
    assert not met.waited
    assert [task.key for task in met.second] == ["b"]
    assert statuses(postgres) == {"a": "done", "b": "working"}


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [("done", "superseded"), ("failed", "superseded"), ("released", "accepted")],
)
def test_late_result_that_meets_the_word_in_time(
    outcome: str, verdict: str, lost: list[Claimed], hire: Hire, campaign: Campaign, dsn: str
) -> None:
    """What was decided first stays decided."""
    other = hire()
    (again,) = other.claim(1)
    met = meet(dsn, reporting(again, outcome=outcome), reporting(lost[0]))
    assert (met.waited, met.first, met.second) == (True, ["accepted"], [verdict])
    assert [attempt.outcome for attempt in campaign.attempts("a")].count("done") == (
        outcome != "failed"
    )


@pytest.mark.parametrize("outcome", ["done", "failed", "released"])
def test_word_in_time_that_meets_a_late_result_is_superseded(
    outcome: str, lost: list[Claimed], hire: Hire, campaign: Campaign, dsn: str
) -> None:
    """Its attempt has ended while it waited."""
    other = hire()
    (again,) = other.claim(1)
    met = meet(dsn, reporting(lost[0]), reporting(again, outcome=outcome))
    assert (met.waited, met.second) == (True, ["superseded"])
    assert attempts(campaign) == [SALVAGED, ("cancelled", "salvaged")]


def test_late_result_that_meets_the_last_loss_counts(
    lost: list[Claimed], hire: Hire, campaign: Campaign, postgres: Postgres, dsn: str
) -> None:
    """The task fails through losses while it waits, which it could not have seen before."""
    other = hire()
    other.claim(1)
    silence(postgres, other.session)
    met = meet(dsn, EXPIRE, reporting(lost[0]))
    assert (met.waited, met.first, met.second) == (True, 1, ["accepted"])
    assert attempts(campaign) == [SALVAGED, ("lost", "agent-lost")]


def test_expiry_that_meets_a_late_result_loses_nothing(
    lost: list[Claimed], hire: Hire, campaign: Campaign, postgres: Postgres, dsn: str
) -> None:
    """It passes over the locked row; what it finds later has ended."""
    other = hire()
    other.claim(1)
    silence(postgres, other.session)
    met = meet(dsn, reporting(lost[0]), EXPIRE)
    assert (met.waited, met.second) == (False, 0)
    assert expire(postgres) == 0
    assert attempts(campaign) == [SALVAGED, ("cancelled", "salvaged")]


@pytest.mark.parametrize("undo", [False, True])
def test_late_result_that_meets_a_cancellation(
    undo: bool, lost: list[Claimed], campaign: Campaign, dsn: str
) -> None:
    """It is superseded where that commits, and counts where it does not."""
    met = meet(dsn, cancelling(campaign.campaign_id), reporting(*lost), undo=undo)
    assert (met.waited, met.first) == (True, 2)
    assert met.second == ["accepted" if undo else "superseded"] * 2


def test_cancellation_that_meets_a_late_result_takes_the_others(
    lost: list[Claimed], campaign: Campaign, postgres: Postgres, dsn: str
) -> None:
    """What counts is not cancelled any more."""
    met = meet(dsn, reporting(lost[0]), cancelling(campaign.campaign_id))
    assert (met.waited, met.first, met.second) == (True, ["accepted"], 1)
    assert statuses(postgres) == {"a": "done", "b": "cancelled"}


def test_late_result_meets_a_heartbeat_of_the_new_attempt(
    lost: list[Claimed], hire: Hire, dsn: str
) -> None:
    """The beat waits for nothing, and the next one tells."""
    other = hire()
    (again,) = other.claim(1)
    met = meet(dsn, reporting(lost[0]), lambda _: other.heartbeat([again]))
    assert (met.waited, met.second) == (False, set())
    assert other.heartbeat([again]) == {again.task}


def archiving() -> Callable[[Postgres], Any]:
    """Return an act that begins an archive."""
    return calling("select archive from taskq.begin_archive('/c')")


@pytest.fixture
def ended(lost: list[Claimed], hire: Hire, postgres: Postgres) -> list[Claimed]:
    """Give the first attempts of two tasks that have failed since."""
    for other in (hire(), hire()):  # tasks that were lost together are tried apart
        other.claim(1)
        silence(postgres, other.session)
    assert expire(postgres) == 2
    assert set(statuses(postgres).values()) == {"failed"}
    return lost


def test_archive_waits_for_a_late_result(
    ended: list[Claimed], campaign: Campaign, dsn: str
) -> None:
    """So that it has all that counts."""
    met = meet(dsn, reporting(ended[0]), archiving())
    assert (met.waited, met.first) == (True, ["accepted"])
    assert (campaign.status().done, campaign.status().state) == (1, "archived")


@pytest.mark.parametrize("undo", [False, True])
def test_late_result_that_meets_an_archive_is_superseded(
    undo: bool, ended: list[Claimed], campaign: Campaign, dsn: str
) -> None:
    """It waits, and counts if nothing is archived."""
    met = meet(dsn, archiving(), reporting(ended[0]), undo=undo)
    assert (met.waited, met.second) == (True, ["accepted" if undo else "superseded"])
    assert campaign.status().done == undo


def test_batch_with_a_late_result_locks_in_the_order_of_tasks(
    lost: list[Claimed], hire: Hire, dsn: str
) -> None:
    """Whatever order it has: else it would hold b while it waits for a, and others the reverse."""
    hire().claim(1)
    (mine,) = hire().claim(1)
    assert (lost[0].key, mine.key) == ("a", "b")
    assert in_order(dsn, [lost[0], mine], reporting(mine, lost[0])) == ["accepted"] * 2


def test_recovery_locks_in_the_order_of_tasks(
    lost: list[Claimed], hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """Those that failed as poison among the others: late results come in that order as well."""
    for other in (hire(), hire()):  # tasks that were lost together are tried apart
        other.claim(1)
        silence(postgres, other.session)
    assert expire(postgres) == 2
    postgres.execute(
        "update taskq.attempt set error_class = 'poison' where attempt = 2 and task_id = %s",
        [lost[0].task],
    )
    query = "select campaigns from taskq.recover('/c', null, null, '-infinity', false)"
    (moved,) = in_order(dsn, lost, calling(query))
    assert moved["retried"] == 2


def test_late_result_whose_row_it_may_not_wait_for_is_to_be_sent_again(
    lost: list[Claimed], dsn: str
) -> None:
    """One that was given up while its exchange was under way: it could be waiting in a circle."""
    report = json.dumps([report_of(lost[0], "done")])
    query = "select taskq.salvage(%s, %s, '{}')"
    act = calling(query, lost[0].campaign, report)
    with pytest.raises(psycopg.errors.LockNotAvailable):
        meet(dsn, locking(lost[0].task), act)
    assert meet(dsn, locking(lost[1].task), act).second == [1]
