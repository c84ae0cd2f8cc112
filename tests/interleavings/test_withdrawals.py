"""Results are withdrawn while something else happens to their tasks, or somebody reads them.

A done task has no row that others could lock: its attempt and the campaign's lock stand for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from taskq import Campaign, CampaignSpec, Client, Cursor, Seed
from taskq.model.errors import Conflict
from taskq.model.views import Result
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import TRUE
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

DONE, WITHDRAWN = ("done", None), ("withdrawn", None)
LOST, SALVAGED = ("lost", "agent-lost"), ("done", "agent-lost")
FINDING = "select taskq.index_results('/c', 'result', 'score')"


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give a campaign that hedges, and salvages late results."""
    spec = CampaignSpec("/c", handler=TRUE, late_results="salvage", hedge=1.0)
    return queue.create_campaign(spec)


@pytest.fixture
def done(agent: ScriptedAgent) -> list[Claimed]:
    """Give two attempts, on a and on b, that are done."""
    tasks = agent.claim_singly(2)
    assert [agent.done(task, {"score": 0}) for task in tasks] == ["accepted"] * 2
    return tasks


def withdrawing(*tasks: Claimed) -> Callable[[Postgres], int]:
    """Return an act that withdraws what is done of some tasks, and returns how many that were."""
    query = "select moved from taskq.retry(%s, 'done', null, %s, 0, null)"
    return calling(query, tasks[0].campaign, [task.task for task in tasks])


def attempts(campaign: Campaign, key: str = "a") -> list[tuple[str, str | None]]:
    return [(attempt.outcome, attempt.error_class) for attempt in campaign.attempts(key)]


@pytest.mark.parametrize("undo", [False, True])
def test_of_two_withdrawals_at_once_one_counts(
    undo: bool, done: list[Claimed], campaign: Campaign, dsn: str
) -> None:
    """The second waits, and finds only what the first has left."""
    met = meet(dsn, withdrawing(done[0]), withdrawing(*done), undo=undo)
    assert (met.waited, met.first, met.second) == (True, 1, 2 if undo else 1)
    assert attempts(campaign) == attempts(campaign, "b") == [WITHDRAWN]


@pytest.mark.parametrize("outcome", ["done", "failed", "released"])
@pytest.mark.parametrize("undo", [False, True])
def test_repeated_report_that_meets_a_withdrawal_changes_nothing(
    undo: bool, outcome: str, done: list[Claimed], campaign: Campaign, dsn: str
) -> None:
    """The same word is a duplicate, before and after."""
    met = meet(dsn, withdrawing(*done), reporting(done[0], outcome=outcome), undo=undo)
    verdict = "duplicate" if outcome == "done" else "superseded"
    assert (met.waited, met.first, met.second) == (False, 2, [verdict])
    assert attempts(campaign) == [DONE if undo else WITHDRAWN]


def test_withdrawal_that_meets_a_report_leaves_its_result(
    agent: ScriptedAgent, campaign: Campaign, dsn: str
) -> None:
    """It sees a task at work, and waits for nobody."""
    tasks = agent.claim_singly(2)
    agent.done(tasks[1])
    met = meet(dsn, reporting(tasks[0]), withdrawing(*tasks))
    assert (met.waited, met.first, met.second) == (False, ["accepted"], 1)
    assert (attempts(campaign), attempts(campaign, "b")) == ([DONE], [WITHDRAWN])


@pytest.fixture
def given_up(agent: ScriptedAgent, hire: Hire, postgres: Postgres) -> tuple[Claimed, Claimed]:
    """Give two attempts on a: the first was lost, the second is done."""
    (first,) = agent.claim()
    silence(postgres, agent.session)
    assert expire(postgres) == 1
    other = hire(host="other")
    (second,) = other.claim()
    assert (second.key, other.done(second)) == ("a", "accepted")
    return first, second


@pytest.mark.parametrize("undo", [False, True])
def test_late_result_that_meets_a_withdrawal_comes_too_late(
    undo: bool, given_up: tuple[Claimed, Claimed], campaign: Campaign, dsn: str
) -> None:
    """The task is done until the withdrawal commits. Repeated, it counts from then on."""
    first, second = given_up
    met = meet(dsn, withdrawing(second), reporting(first), undo=undo)
    assert (met.waited, met.first, met.second) == (False, 1, ["superseded"])
    assert attempts(campaign) == [LOST, DONE if undo else WITHDRAWN]
    if not undo:
        assert meet(dsn, reporting(first), withdrawing(second)).second == 0
        assert attempts(campaign) == [SALVAGED, WITHDRAWN]


def test_withdrawal_of_what_was_salvaged_meets_its_repeated_report(
    given_up: tuple[Claimed, Claimed], campaign: Campaign, postgres: Postgres, dsn: str
) -> None:
    """The result that was lost, salvaged and withdrawn is not salvaged again."""
    first, second = given_up
    assert withdrawing(second)(postgres) == 1
    assert reporting(first)(postgres) == ["accepted"]
    met = meet(dsn, withdrawing(first), reporting(first))
    assert (met.waited, met.first, met.second) == (False, 1, ["duplicate"])
    assert reporting(first)(postgres) == ["duplicate"]
    assert attempts(campaign) == [("withdrawn", "agent-lost"), WITHDRAWN]


def hedging(task: Claimed) -> Callable[[Postgres], Any]:
    """Return an act that lets a second attempt be made of a task, and returns whether it did."""
    query = "select taskq.hedge_task(%s, %s, %s, 'slow')"
    return calling(query, task.campaign, task.task, task.lease)


@pytest.mark.parametrize("winner", [0, 1])
def test_task_that_was_hedged_is_not_hedged_again_after_a_withdrawal(
    winner: int,
    agent: ScriptedAgent,
    hire: Hire,
    campaign: Campaign,
    postgres: Postgres,
    dsn: str,
) -> None:
    """Whichever of its two attempts had won."""
    (first,) = agent.claim()
    assert hedging(first)(postgres) is True
    other = hire(host="other")
    (second,) = other.claim()
    withdrawn = (first, second)[winner]
    assert reporting(withdrawn)(postgres) == ["accepted"]
    third = hire(host="third")
    met = meet(dsn, in_turn(withdrawing(withdrawn), claiming(third)), hedging(withdrawn))
    assert (met.waited, met.second) == (False, False)
    (again,) = met.first[1]
    assert (again.key, again.attempt) == ("a", 3)
    assert hedging(again)(postgres) is False
    assert third.done(again) == "accepted"
    assert attempts(campaign)[2] == DONE


@pytest.mark.parametrize("undo", [False, True])
def test_claim_that_meets_a_withdrawal_gets_nothing_yet(
    undo: bool, done: list[Claimed], hire: Hire, dsn: str
) -> None:
    """It waits for nobody, and the next one gets the task."""
    other = hire(host="other")
    met = meet(dsn, withdrawing(done[0]), claiming(other), undo=undo)
    assert (met.waited, met.second) == (False, [])
    other.forget_position()
    assert [(task.key, task.attempt) for task in other.claim()] == ([] if undo else [("a", 2)])


@pytest.mark.parametrize("undo", [False, True])
def test_cancellation_that_meets_a_withdrawal_takes_the_task(
    undo: bool, done: list[Claimed], campaign: Campaign, postgres: Postgres, dsn: str
) -> None:
    """It waits, so that nothing is left waiting in a cancelled campaign."""
    met = meet(dsn, withdrawing(*done), cancelling(campaign.campaign_id), undo=undo)
    assert (met.waited, met.first, met.second) == (True, 2, 0 if undo else 2)
    status = "done" if undo else "cancelled"
    assert statuses(postgres) == {"a": status, "b": status}


def test_cancellation_of_one_task_that_meets_a_withdrawal_finds_it_done(
    done: list[Claimed], campaign: Campaign, postgres: Postgres, dsn: str
) -> None:
    """It waits for nobody; that is as if it had come first."""
    met = meet(dsn, withdrawing(*done), lambda _: campaign.cancel(["a"]))
    assert (met.waited, met.second) == (False, 0)
    assert statuses(postgres) == {"a": "waiting", "b": "waiting"}


def test_withdrawal_that_meets_a_cancellation_is_refused(
    done: list[Claimed], campaign: Campaign, postgres: Postgres, dsn: str
) -> None:
    """It waits, and looks at the campaign only then."""
    act = in_turn(
        calling("select taskq.set_status('/c', 'cancelled')"), cancelling(campaign.campaign_id)
    )
    with pytest.raises(Conflict, match="resume it before retrying"):
        meet(dsn, act, lambda _: campaign.retry(status="done"))
    assert statuses(postgres) == {task.key: "done" for task in done}


@pytest.mark.parametrize("undo", [False, True])
def test_seed_that_meets_a_withdrawal_adds_nothing(
    undo: bool, done: list[Claimed], campaign: Campaign, dsn: str
) -> None:
    """Its key is known, whether its task is done or waits."""
    met = meet(
        dsn, withdrawing(*done), lambda _: campaign.seed([Seed({"n": 1}, "a")]).added, undo=undo
    )
    assert (met.waited, met.second) == (True, 0)
    assert campaign.status().waiting == (0 if undo else 2)


def test_withdrawal_happens_after_the_end_of_what_it_takes(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres, dsn: str
) -> None:
    """Also by the clock, when it was under way before the report, and waited for its locks."""
    tasks = agent.claim_singly(2)
    met = meet(dsn, calling(FINDING), withdrawing(*tasks), meanwhile=lambda _: agent.done(tasks[0]))
    assert (met.waited, met.second) == (True, 1)
    query = """
        select w.withdrawn_at > a.ended_at and t.due_at > a.ended_at
          from taskq.withdrawal w
          join taskq.attempt a using (task_id, attempt)
          join taskq.task t using (task_id)
    """
    assert value(postgres, query) is True
    assert attempts(campaign) == [WITHDRAWN]


@pytest.mark.parametrize("undo", [False, True])
def test_reader_with_a_cursor_sees_a_concurrent_withdrawal_once(
    undo: bool, done: list[Claimed], campaign: Campaign, hire: Hire, dsn: str
) -> None:
    """With its next look, and then it gets the next result."""
    cursor = Cursor()

    def look(_: object = None) -> list[tuple[str, int, bool]]:
        found = list(campaign.results(since=cursor))
        return [
            (result.key, result.attempt, getattr(result, "withdrawn", False)) for result in found
        ]

    met = meet(dsn, withdrawing(done[0]), look, undo=undo)
    assert (met.waited, met.second) == (False, [("a", 1, False), ("b", 1, False)])
    assert look() == ([] if undo else [("a", 1, True)])
    assert look() == []
    if not undo:
        other = hire(host="other")
        (again,) = other.claim()
        other.done(again)
        assert look() == [("a", 2, False)]
        assert look() == []


def test_result_that_follows_a_withdrawal_during_a_look_is_given_once(
    done: list[Claimed],
    campaign: Campaign,
    hire: Hire,
    postgres: Postgres,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its reader never had the withdrawn result, and does not learn of it."""
    monkeypatch.setattr("taskq.results.following.PAGE", 1)
    cursor, other = Cursor(), hire(host="other")
    looking = campaign.results(since=cursor)
    assert next(looking).key == "a"
    assert withdrawing(done[1])(postgres) == 1
    (again,) = other.claim()
    assert other.done(again) == "accepted"
    rest = [*looking, *campaign.results(since=cursor), *campaign.results(since=cursor)]
    assert [(result.key, result.attempt, type(result)) for result in rest] == [("b", 2, Result)]
