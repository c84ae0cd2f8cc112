"""A task that avoids a host goes on avoiding it, whatever else becomes of it meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from taskq import Campaign, Client, RetryPolicy
from taskq.db.connections import Database
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import TRUE
from tests.helpers.postgres import Postgres, expire, promote, silence, statuses, value
from tests.helpers.scripted_agent import Claimed, ScriptedAgent
from tests.helpers.scripted_pool import ScriptedPool

pytestmark = pytest.mark.usefixtures("true_counts")


@pytest.fixture
def bad(campaign: Campaign, hire: Hire, postgres: Postgres) -> Iterator[ScriptedAgent]:
    """Give an agent on whose host the only task has failed; it waits again, for another host."""
    retry = RetryPolicy(max_attempts=5, max_losses=1, backoff_s=0, backoff_max_s=0)
    campaign.change(replace(campaign.spec(), handler=TRUE, retry=retry, late_results="salvage"))
    campaign.seed([{"n": 1}])
    bad = hire(host="bad")
    bad.fail(bad.claim(1)[0])
    assert promote(postgres) == 1
    yield bad
    assert value(postgres, "select count(*) from taskq.state") == 1


def got(agent: ScriptedAgent) -> list[Claimed]:
    """Claim from the head of the queue."""
    agent.forget_position()
    return agent.claim(1)


def test_released_and_refused_attempts_change_nothing(bad: ScriptedAgent, hire: Hire) -> None:
    """Neither those that had begun, nor those that had not."""
    good, other = hire(host="good"), hire(host="other")
    for details in ({"started": False}, {"started": True}, {"refused": True}):
        (task,) = got(good)
        assert good.report(task, "released", **details) == "accepted"
        assert got(bad) == []
    assert len(got(other)) == 1


def test_lost_attempts_change_nothing(
    bad: ScriptedAgent, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """The task is for another host still, and a late success of the lost one still counts."""
    campaign.change(replace(campaign.spec(), retry=replace(campaign.spec().retry, max_losses=5)))
    lost, _ = hire(host="lost"), hire(host="other")
    (task,) = got(lost)
    silence(postgres, lost.session)
    assert expire(postgres) == 1
    assert got(bad) == []
    assert lost.done(task) == "accepted"
    assert list(statuses(postgres).values()) == ["done"]


def test_recovered_task_may_go_anywhere(
    bad: ScriptedAgent, queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """It begins anew, as what an operator retries."""
    began = datetime.now(timezone.utc) - timedelta(hours=1)
    lost, _ = hire(host="lost"), hire(host="other")
    assert len(got(lost)) == 1
    silence(postgres, lost.session)
    assert expire(postgres) == 1
    assert list(statuses(postgres).values()) == ["failed"]
    queue.recover(lost_since=began)
    assert [task.attempt for task in got(bad)] == [3]


def test_task_that_comes_back_from_the_pool_avoids_as_before(
    bad: ScriptedAgent, database: Database, hire: Hire, postgres: Postgres
) -> None:
    """It was leased ahead when there was no other host."""
    pool = ScriptedPool(database, bad.campaign)
    leased = pool.lease(1)
    assert len(leased) == 1
    hire(host="other")
    assert pool.give_back(leased) == 1
    assert pool.lease(1) == []
    assert got(bad) == []
    assert value(postgres, "select status from taskq.state") == "waiting"
