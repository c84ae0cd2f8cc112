"""Leasing tasks to the pool: which, under which leases, by whom; and giving them back."""

from __future__ import annotations

import uuid

import pytest

from taskq import Campaign, CampaignSpec, Client, Seed
from taskq.db.connections import Database
from taskq_agent.protocol import DONE, FAILED, RELEASED
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import TRUE, servable
from tests.helpers.postgres import Postgres, expire, promote, statuses, task_row, value
from tests.helpers.scripted_agent import Claimed, report_of
from tests.helpers.scripted_pool import ScriptedPool
from tests.helpers.waiting import wait_until
from tests.integration.front.leasing_ahead.support import say

pytestmark = pytest.mark.usefixtures("true_counts")


def test_task_is_leased_to_the_pool_before_its_entry_is_visible(
    pool: ScriptedPool, postgres: Postgres, hire: Hire
) -> None:
    """An entry carries a right that PostgreSQL knows already; nobody else can claim the task."""
    leased = pool.lease(4)
    assert [task.payload["n"] for task in leased] == [0, 1, 2, 3]
    for claim in leased:
        row = task_row(postgres, claim.task)
        assert (row["status"], row["session_id"], row["attempt"]) == ("working", 0, 1)
        assert str(row["lease_id"]) == claim.lease
    assert [task.payload["n"] for task in hire().claim(10)] == [4, 5, 6, 7, 8, 9]
    assert pool.lease(1) == []


def test_leases_of_the_pool_are_unlike_and_in_the_order_of_time(pool: ScriptedPool) -> None:
    """Each task has a lease of its own, so that who has one entry cannot speak of another task."""
    first, second = pool.lease(3), pool.lease(3)
    assert len({task.lease for task in [*first, *second]}) == 6
    assert max(task.lease[:13] for task in first) <= min(task.lease[:13] for task in second)


def test_higher_priority_is_leased_before_lower_ones_in_the_pool(
    pool: ScriptedPool, campaign: Campaign
) -> None:
    """Overtakers are known, and are leased without the other tasks."""
    pool.lease(2)
    assert pool.keep((pool.campaign, 2, 0))["overtaken"] is None
    campaign.submit({"n": "urgent"}, priority=7)
    assert pool.keep((pool.campaign, 2, 0))["overtaken"] == [pool.campaign]
    assert [task.payload["n"] for task in pool.lease(5, before=0)] == ["urgent"]
    assert pool.keep((pool.campaign, 3, 0))["overtaken"] is None


def test_failed_task_is_leased_ahead_only_where_any_host_may_have_it(
    pool: ScriptedPool, hire: Hire, postgres: Postgres
) -> None:
    """Who pops may be on the host where it failed; after a while that one may have it as well."""
    failing, other = hire(host="a"), hire(host="b")
    claim, two = failing.claim(2)
    for task in (claim, two):
        failing.fail(task)
    promote(postgres)
    assert [leased.payload["n"] for leased in pool.lease(3)] == [2, 3, 4]
    assert other.claim(1)[0].task == claim.task
    past = "update taskq.task set due_at = due_at - interval '3 min' where task_id = %s"
    postgres.execute(past, [two.task])
    assert two.task in {leased.task for _ in range(6) for leased in pool.lease(1)}


def test_task_that_no_entry_can_hold_is_left_to_postgresql(
    pool: ScriptedPool, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Anyone who pops drops entries beyond 1 MiB: the task would never be handed out."""
    campaign.seed([Seed({}, "large", priority=5), Seed({"n": 10}, "10")])
    large = '{"n": [' + ", ".join(["1e308"] * 5_000) + "]}"  # 309 digits each when stored
    postgres.execute("update taskq.spec set payload = %s where key = 'large'", [large])
    assert pool.lease(1) == []
    leased = pool.lease(100)
    assert [task.payload["n"] for task in leased] == list(range(11))
    assert statuses(postgres)["large"] == "waiting"
    (claimed,) = hire().claim(1)
    assert claimed.payload == {"n": [10**308] * 5_000}


def test_task_that_the_front_lost_once_is_not_leased_ahead_again(
    database: Database, campaign: Campaign, postgres: Postgres, hire: Hire
) -> None:
    """Anyone who empties the lists again and again cannot keep tasks from being claimed."""
    pool = ScriptedPool(database, campaign.campaign_id, pool_s=1.0)
    lost = pool.lease(4)
    wait_until(lambda: value(postgres, "select taskq.expire_ahead()") == 4)
    assert {task.task for task in pool.lease(10)}.isdisjoint(task.task for task in lost)
    agent = hire()
    agent.forget_position()
    assert {task.task for task in agent.claim(10)} == {task.task for task in lost}


@pytest.mark.parametrize("outcome", [FAILED, RELEASED])
def test_task_that_an_agent_has_tried_may_be_leased_ahead_again(
    outcome: str, pool: ScriptedPool, hire: Hire, postgres: Postgres
) -> None:
    """An attempt that was reported before any heartbeat named it is no lost entry."""
    agent = hire()
    (tried,) = pool.lease(1)
    assert say(agent, report_of(tried, outcome)) == ["accepted"]
    postgres.execute("update taskq.task set due_at = now() where status = 'delayed'")
    postgres.execute("select taskq.promote_delayed()")
    wait_until(lambda: tried.task in {task.task for task in pool.lease(10)})


def test_shares_do_not_count_what_waits_in_the_lists(
    pool: ScriptedPool, queue: Client, database: Database
) -> None:
    """A campaign that is leased ahead runs no more tasks for that; it lacks its share as before."""
    servable(queue, "/other").seed([{"n": 1}])
    pool.lease(8)
    pool.keep((pool.campaign, 8, 0))
    rows = database.rows("servable", path="/", lifetime_s=None, offers=[], most=9)
    assert {row["desire"] for row in rows} == {0.5}


def test_new_epoch_leases_under_a_new_secret_and_ends_the_old_one(pool: ScriptedPool) -> None:
    """Entries of another epoch do not authenticate, and a refiller that is late leases nothing."""
    before, old = pool.state, pool.entries(1)
    assert pool.begin() == before["epoch"] + 1
    assert pool.entries(1, epoch=before["epoch"]) == []
    with pytest.raises(AssertionError):
        pool.read(old[0])
    assert pool.lease(1)


def test_campaign_that_is_closed_or_limited_is_not_leased_ahead(
    pool: ScriptedPool, queue: Client, campaign: Campaign
) -> None:
    """Paused, cancelled above, limited or kept from the front: reported once, not leased again."""
    stocked = (pool.campaign, 5, 0)
    assert pool.keep(stocked)["closed"] is None
    campaign.pause()
    assert (pool.keep(stocked)["closed"], pool.lease(1)) == ([pool.campaign], [])
    campaign.resume()
    for spec in (
        CampaignSpec("/c", handler=TRUE, max_running=5),
        CampaignSpec("/c", handler=TRUE, front=False),
    ):
        campaign.change(spec)
        assert (pool.keep(stocked)["closed"], pool.lease(1)) == ([pool.campaign], [])
    campaign.change(CampaignSpec("/c", handler=TRUE))
    assert pool.keep(stocked)["closed"] is None
    queue.campaign("/").pause()
    assert (pool.keep(stocked)["closed"], pool.lease(1)) == ([pool.campaign], [])


def test_one_refiller_acts_and_another_takes_over(pool: ScriptedPool, postgres: Postgres) -> None:
    """As for keepers: within a term of the first's last round."""
    other = str(uuid.uuid4())
    assert pool.keep()["acting"]
    assert not pool.keep(holder=other)["acting"]
    postgres.execute("update taskq.front_refiller set until = clock_timestamp()")
    assert pool.keep(holder=other)["acting"]
    assert not pool.keep()["acting"]


def test_last_tasks_of_a_campaign_are_claimable_while_they_are_in_the_pool(
    pool: ScriptedPool, database: Database
) -> None:
    """Agents choose the campaign, and idle ones are woken, although nothing waits in the table."""

    def chosen() -> list[int]:
        rows = database.rows("servable", path="/", lifetime_s=None, offers=[], most=9)
        return [row["campaign_id"] for row in rows]

    pool.lease(10)
    assert chosen() == []
    pool.keep((pool.campaign, 10, 0))
    assert chosen() == [pool.campaign]
    servings = '[{"path":"/c","lifetime_s":null,"offers":[]}]'
    for front, claimable in ((True, [[[0], 10]]), (False, [])):
        found = database.row("claimable", servings=servings, front=front)
        assert found is not None
        assert found["claimable"] == claimable, "whom no list serves is not woken for what is in it"
    pool.keep()
    assert chosen() == []


def test_misformed_arguments_are_refused_and_change_nothing(
    pool: ScriptedPool, database: Database
) -> None:
    """What the refiller cannot have meant is refused, in the queue's words."""
    (task,) = pool.lease(1)
    for most in (-1, 1_001):
        with pytest.raises(Exception, match="0 to 1000"):
            pool.lease(most)
    with pytest.raises(Exception, match="arrays of one length"):
        database.value("return_ahead", campaigns=[1], tasks=[None], leases=[task.lease], lost=False)
    for stocked in ('{"a": 1}', "[[1]]", "[[1, 2, 3], [1, 2, 3]]"):
        with pytest.raises(Exception, match="stocked must be an array"):
            database.row("keep_front", holder=pool.holder, term_s=10.0, stocked=stocked, look=True)
    assert pool.give_back([task]) == 1


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
    again = {task.task: task for task in agent.claim(10)}
    assert {again[task.task].attempt for task in left} == {1}
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
    assert {task_row(postgres, task.task)["attempt"] for task in leased[1:]} == {0}
    assert say(hire(), report_of(leased[1], DONE)) == ["superseded"]
    assert agent.heartbeat(leased) == {task.task for task in leased[1:]}


def test_deadline_passes_over_what_is_locked_and_comes_back_to_it(
    database: Database, campaign: Campaign, postgres: Postgres
) -> None:
    """A report that is under way at that moment wins; if it fails, the task is found later."""
    pool = ScriptedPool(database, campaign.campaign_id, pool_s=1.0)
    task, other = pool.lease(2)
    with database.transaction() as statements:
        statements.script(f"select from taskq.task where task_id = {task.task} for update")
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
    assert hire().heartbeat(leased) == {task.task for task in leased}


def test_stale_lease_gives_nothing_back(pool: ScriptedPool, hire: Hire) -> None:
    """Whatever a list held: only the very lease that the task is under counts."""
    (task,) = pool.lease(1)
    forged = Claimed(task.campaign, task.task, str(uuid.uuid4()), 1, "", {})
    assert pool.give_back([forged]) == 0
    assert say(hire(), report_of(task, DONE)) == ["accepted"]
