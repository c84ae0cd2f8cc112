"""Tasks of the pool that nobody gets: given back, past the deadline, cancelled."""

from __future__ import annotations

import uuid

import pytest

from taskq import Campaign
from taskq.db.connections import Database
from taskq_agent.protocol import DONE
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, expire, task_row, value
from tests.helpers.scripted_agent import Claimed, report_of
from tests.helpers.scripted_pool import ScriptedPool
from tests.helpers.waiting import wait_until
from tests.integration.front.leasing_ahead.support import say

pytestmark = pytest.mark.usefixtures("true_counts")


def test_lease_given_back_waits_again_uncounted(
    pool: ScriptedPool, campaign: Campaign, hire: Hire
) -> None:
    """What was withdrawn from the lists is as if it had never been leased."""
    leased = pool.lease(4)
    named, done, *left = leased
    agent = hire()
    agent.heartbeat([named])
    say(agent, report_of(done, DONE))
    assert pool.give_back(leased) == 2
    assert (campaign.status().waiting, campaign.status().working) == (8, 1)
    agent.forget_position()
    again = {one.task: one for one in agent.claim(10)}
    assert {again[one.task].attempt for one in left} == {1}
    assert say(hire(), report_of(left[0], DONE)) == ["unknown"]


@pytest.mark.thorough
def test_lost_entry_waits_again_after_the_pools_deadline(
    database: Database, campaign: Campaign, postgres: Postgres, hire: Hire
) -> None:
    """Redis may vanish with all that is in it; nothing counts as an attempt, nothing is lost."""
    pool = ScriptedPool(database, campaign.campaign_id, pool_s=1.0)
    agent = hire()
    named, *_ = leased = pool.lease(5)
    agent.heartbeat([named])
    assert value(postgres, "select taskq.expire_ahead()") == 0, "none is due yet"
    wait_until(lambda: value(postgres, "select taskq.expire_ahead()") == 4)
    assert (campaign.status().waiting, campaign.status().losses) == (9, 0)
    assert {task_row(postgres, one.task)["attempt"] for one in leased[1:]} == {0}
    assert say(hire(), report_of(leased[1], DONE)) == ["superseded"]
    assert agent.heartbeat(leased) == {one.task for one in leased[1:]}


def test_deadline_passes_over_what_is_locked_and_comes_back_to_it(
    database: Database, campaign: Campaign, postgres: Postgres
) -> None:
    """A report that is under way at that moment wins; if it fails, the task is found later."""
    pool = ScriptedPool(database, campaign.campaign_id, pool_s=1.0)
    one, other = pool.lease(2)
    with database.transaction() as statements:
        statements.script(f"select from taskq.task where task_id = {one.task} for update")
        wait_until(lambda: value(postgres, "select taskq.expire_ahead()") == 1)
        assert task_row(postgres, other.task)["status"] == "waiting"
        assert value(postgres, "select taskq.expire_ahead()") == 0
    wait_until(lambda: value(postgres, "select taskq.expire_ahead()") == 1)


def test_pool_is_nobodys_session_and_never_lost_with_one(
    pool: ScriptedPool, campaign: Campaign, postgres: Postgres
) -> None:
    """Upkeep that looks for silent agents leaves the pool alone."""
    pool.lease(3)
    assert expire(postgres) == 0
    assert campaign.status().working == 3


def test_cancelled_task_of_the_pool_was_no_attempt(
    pool: ScriptedPool, campaign: Campaign, postgres: Postgres, hire: Hire
) -> None:
    """Nobody has worked on it, as far as anybody knows."""
    leased = pool.lease(2)
    campaign.cancel()
    assert campaign.status().cancelled == 10
    assert value(postgres, "select count(*) from taskq.attempt") == 0
    assert task_row(postgres, leased[0].task)["attempt"] == 0
    assert hire().heartbeat(leased) == {one.task for one in leased}


def test_stale_lease_gives_nothing_back(pool: ScriptedPool, hire: Hire) -> None:
    """Whatever a list held: only the very lease that the task is under counts."""
    (one,) = pool.lease(1)
    forged = Claimed(one.campaign, one.task, str(uuid.uuid4()), 1, "", {})
    assert pool.give_back([forged]) == 0
    assert say(hire(), report_of(one, DONE)) == ["accepted"]
