"""The keeper expires a session at the moment in which its agent speaks.

River's rescuer read which jobs were stuck and wrote later, by id alone, so that it sent jobs which
had finished in between back to be run again (riverqueue/river#1302). Solid Queue's pruning failed
the jobs of a process that finished them at the same time: both transactions went through, and a
job was finished and failed at once (rails/solid_queue#589).
"""

from __future__ import annotations

import json

import pytest

from taskq import Campaign
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, expire, silence, statuses
from tests.helpers.scripted_agent import Claimed, ScriptedAgent
from tests.interleavings.meeting import EXPIRE, calling, claiming, in_turn, meet, reporting

OUTCOMES = ["done", "failed", "released"]
AFTER = {"done": "done", "failed": "delayed", "released": "waiting"}


@pytest.fixture
def silent(agent: ScriptedAgent, held: list[Claimed], postgres: Postgres) -> ScriptedAgent:
    """Give an agent that holds a and b and was silent for too long."""
    assert len(held) == 2
    silence(postgres, agent.session)
    return agent


def outcomes(campaign: Campaign, key: str) -> list[str]:
    return [attempt.outcome for attempt in campaign.attempts(key)]


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_report_that_meets_an_expiry_changes_nothing_more(
    outcome: str, count: int, held: list[Claimed], campaign: Campaign, dsn: str
) -> None:
    """It waits for the expiry and then finds the lease void; the loss is the one record."""
    met = meet(dsn, EXPIRE, reporting(*held[:count], outcome=outcome))
    assert met.waited
    assert (met.first, met.second) == (2, ["superseded"] * count)
    for key in "ab":
        assert campaign.task(key).status == "waiting"
        assert outcomes(campaign, key) == ["lost"]


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_report_that_meets_an_expiry_which_is_undone_counts(
    outcome: str, count: int, held: list[Claimed], campaign: Campaign, dsn: str
) -> None:
    """A keeper that is killed in the middle has not happened."""
    met = meet(dsn, EXPIRE, reporting(*held[:count], outcome=outcome), undo=True)
    assert met.second == ["accepted"] * count
    for task in held[:count]:
        assert campaign.task(task.key).status == AFTER[outcome]
        assert outcomes(campaign, task.key) == [outcome]


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_expiry_neither_overwrites_nor_awaits_a_report(
    outcome: str, held: list[Claimed], campaign: Campaign, postgres: Postgres, dsn: str
) -> None:
    """What is being reported stays as it is reported; the session's other task is handed out."""
    met = meet(dsn, reporting(held[0], outcome=outcome), EXPIRE)
    assert (met.waited, met.first, met.second) == (False, ["accepted"], 1)
    assert expire(postgres) == 0
    assert statuses(postgres) == {"a": AFTER[outcome], "b": "waiting"}
    assert (outcomes(campaign, "a"), outcomes(campaign, "b")) == ([outcome], ["lost"])


@pytest.mark.usefixtures("silent")
def test_task_whose_report_was_undone_is_expired_by_the_next_round(
    held: list[Claimed], campaign: Campaign, postgres: Postgres, dsn: str
) -> None:
    """Its session ended while it was passed over, and is looked through again."""
    assert meet(dsn, reporting(held[0]), EXPIRE, undo=True).second == 1
    assert campaign.task("a").status == "working"
    assert expire(postgres) == 1
    assert outcomes(campaign, "a") == ["lost"]


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_late_report_does_not_touch_the_next_attempt(
    outcome: str, count: int, held: list[Claimed], campaign: Campaign, hire: Hire, dsn: str
) -> None:
    """It meets a transaction that expires its tasks and hands them to another agent.

    The status is `working` before and after, so only the lease tells the attempts apart. Sidequest
    wrote by id alone, and an old executor failed or finished the newer execution
    (sidequestjs/sidequest#208).
    """
    other = hire(slots=4)
    hand_over = in_turn(EXPIRE, claiming(other, 2))
    met = meet(dsn, hand_over, reporting(*held[:count], outcome=outcome))
    assert met.waited
    assert met.second == ["superseded"] * count
    again = met.first[1]
    assert [(task.key, task.attempt) for task in again] == [("a", 2), ("b", 2)]
    assert [other.done(task) for task in again] == ["accepted"] * 2
    assert outcomes(campaign, "a") == ["lost", "done"]


def test_heartbeat_under_way_keeps_its_session(
    silent: ScriptedAgent, held: list[Claimed], postgres: Postgres, dsn: str
) -> None:
    """The keeper does not wait for it, nor end the session from what it read before."""
    beat = calling("select count(*) from taskq.heartbeat(%s)", silent.session)
    met = meet(dsn, beat, EXPIRE)
    assert (met.waited, met.second) == (False, 0)
    assert expire(postgres) == 0
    assert silent.done(held[0]) == "accepted"


def test_heartbeat_during_the_end_of_its_session_learns_of_the_end(
    silent: ScriptedAgent, dsn: str
) -> None:
    """It does not revive what the keeper has given away."""
    beat = json.dumps([{"session": silent.session, "held": []}])
    met = meet(dsn, EXPIRE, calling("select session_id, ended from taskq.beat(%s)", beat))
    assert (met.waited, met.second) == (True, (silent.session, True))


@pytest.mark.parametrize("first", ["expiry", "leaving"])
def test_session_that_expires_as_its_agent_leaves_ends_once(
    first: str, silent: ScriptedAgent, campaign: Campaign, postgres: Postgres, dsn: str
) -> None:
    """Each attempt is lost or released, as anyone who came first says, and handed out once."""
    leave = calling("select taskq.end_session(%s)", silent.session)
    acts = [EXPIRE, leave] if first == "expiry" else [leave, EXPIRE]
    met = meet(dsn, *acts)
    assert (met.first, met.second) == (2, 0)
    outcome = "lost" if first == "expiry" else "released"
    assert (outcomes(campaign, "a"), outcomes(campaign, "b")) == ([outcome], [outcome])
    assert set(statuses(postgres).values()) == {"waiting"}


@pytest.mark.usefixtures("silent")
def test_two_expiries_at_once_lose_a_task_once(campaign: Campaign, dsn: str) -> None:
    """As when a keeper was stopped, another took over, and the first wakes up."""
    met = meet(dsn, EXPIRE, EXPIRE)
    assert (met.waited, met.first, met.second) == (False, 2, 0)
    assert outcomes(campaign, "a") == ["lost"]
    assert campaign.task("a").losses == 1
