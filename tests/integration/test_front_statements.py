"""Leasing ahead, in PostgreSQL: what the pool holds, who may speak of it, and how it comes back."""

from __future__ import annotations

import uuid

import pytest

from taskq import Campaign, CampaignSpec, Client, Handler, Seed
from taskq.database import Database
from taskq_agent.protocol import DONE, FAILED, RELEASED
from tests.agent_double import AgentDouble, Claimed, report_of
from tests.backstage import (
    Backstage,
    expire,
    silence,
    statuses,
    task_row,
    value,
)
from tests.fixtures.queues import Hire
from tests.pool_double import PoolDouble
from tests.support import wait_until

pytestmark = pytest.mark.usefixtures("true_counts")

HANDLER = Handler("command", argv=("true",))


@pytest.fixture
def campaign(queue: Client) -> Campaign:
    """Give an open campaign, /c, with the tasks 0 to 9."""
    made = queue.create_campaign(CampaignSpec("/c", handler=HANDLER))
    made.seed(Seed({"n": n}, str(n)) for n in range(10))
    return made


@pytest.fixture
def pool(database: Database, campaign: Campaign) -> PoolDouble:
    """Give a pool for it."""
    return PoolDouble(database, campaign.campaign_id)


def say(agent: AgentDouble, *reports: dict[str, object]) -> list[str]:
    """Report through a gateway, which adds whose word it is; return the verdicts."""
    acks: list[str] = agent.exchange([one | {"session": agent.session} for one in reports])["acks"]
    return acks


def name(database: Database, agent: AgentDouble, task: Claimed) -> None:
    """Say to whom a task was handed out, as a gateway does after a while."""
    database.rows(
        "name_ahead",
        sessions=[agent.session],
        campaigns=[task.campaign],
        tasks=[task.task],
        leases=[task.lease],
    )


def test_task_is_leased_to_the_pool_before_anybody_learns_of_it(
    pool: PoolDouble, backstage: Backstage, hire: Hire
) -> None:
    """An entry carries a right that PostgreSQL knows already; nobody else can claim the task."""
    leased = pool.lease(4)
    assert [one.payload["n"] for one in leased] == [0, 1, 2, 3]
    for one in leased:
        row = task_row(backstage, one.task)
        assert (row["status"], row["session_id"], row["attempt"]) == ("working", 0, 1)
        assert str(row["lease_id"]) == one.lease
    assert [one.payload["n"] for one in hire().claim(10)] == [4, 5, 6, 7, 8, 9]
    assert pool.lease(1) == []


def test_leases_of_the_pool_are_unlike_and_in_the_order_of_time(pool: PoolDouble) -> None:
    """Each task has a lease of its own, so that who has one entry cannot speak of another task."""
    first, second = pool.lease(3), pool.lease(3)
    assert len({one.lease for one in [*first, *second]}) == 6
    assert max(one.lease[:13] for one in first) <= min(one.lease[:13] for one in second)


def test_higher_priority_is_leased_before_lower_ones_in_the_pool(
    pool: PoolDouble, campaign: Campaign
) -> None:
    """Overtakers are told of, and are leased without what else waits."""
    pool.lease(2)
    assert pool.keep((pool.campaign, 2, 0))["overtaken"] is None
    campaign.submit({"n": "urgent"}, priority=7)
    assert pool.keep((pool.campaign, 2, 0))["overtaken"] == [pool.campaign]
    assert [one.payload["n"] for one in pool.lease(5, before=0)] == ["urgent"]
    assert pool.keep((pool.campaign, 3, 0))["overtaken"] is None


def test_task_that_no_entry_can_hold_is_left_to_postgresql(
    pool: PoolDouble, campaign: Campaign, hire: Hire, backstage: Backstage
) -> None:
    """Whoever pops drops entries beyond 1 MiB: the task would never be handed out."""
    numbers = [1e308] * 5_000  # six bytes each when seeded, 309 digits when stored
    campaign.seed([Seed({"n": numbers}, "large", priority=5), Seed({"n": 10}, "10")])
    assert pool.lease(1) == []
    leased = pool.lease(100)
    assert [one.payload["n"] for one in leased] == list(range(11))
    assert statuses(backstage)["large"] == "waiting"
    (claimed,) = hire().claim(1)
    assert claimed.payload == {"n": [10**308] * 5_000}


@pytest.mark.parametrize("outcome", [DONE, FAILED, RELEASED])
def test_report_on_a_pooled_task_counts_and_is_the_reporters(
    outcome: str, pool: PoolDouble, hire: Hire, backstage: Backstage
) -> None:
    """A task may end before its agent has named it in a beat; the attempt says who it was."""
    agent = hire()
    one, *others = pool.lease(4)
    assert say(agent, report_of(one, outcome)) == ["accepted"]
    assert say(agent, *(report_of(other, outcome) for other in others)) == ["accepted"] * 3
    assert say(agent, report_of(one, outcome)) == ["duplicate"]
    rows = backstage.execute("select session_id, attempt, outcome::text from taskq.attempt")
    assert rows.fetchall() == [
        {"session_id": agent.session, "attempt": 1, "outcome": outcome} for _ in range(4)
    ]


def test_many_successes_on_pooled_and_own_tasks_count_together(
    pool: PoolDouble, hire: Hire, backstage: Backstage
) -> None:
    """One call may report on both."""
    agent = hire()
    pooled, own = pool.lease(3), agent.claim(3)
    assert say(agent, *(report_of(one, DONE) for one in [*pooled, *own])) == ["accepted"] * 6
    rows = backstage.execute("select distinct session_id from taskq.attempt").fetchall()
    assert rows == [{"session_id": agent.session}]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("outcome", [DONE, FAILED, RELEASED])
def test_session_of_another_campaign_cannot_speak_of_pooled_tasks(
    outcome: str, count: int, pool: PoolDouble, hire: Hire, backstage: Backstage
) -> None:
    """Even if it has learned a lease, which the front does not tell."""
    backstage.execute("select taskq.create_campaign('/other')")
    stranger = hire("/other")
    stranger.campaign = pool.campaign
    leased = pool.lease(count)
    assert say(stranger, *(report_of(one, outcome) for one in leased)) == ["unknown"] * count
    assert stranger.beat(leased) == {one.task for one in leased}
    assert all(task_row(backstage, one.task)["session_id"] == 0 for one in leased)


@pytest.mark.parametrize("count", [1, 3])
def test_ended_session_cannot_speak_of_pooled_tasks(
    count: int, pool: PoolDouble, hire: Hire, backstage: Backstage
) -> None:
    """A revocation ends sessions, and with them all that they may say."""
    agent = hire()
    leased = pool.lease(count)
    agent.leave()
    assert say(agent, *(report_of(one, DONE) for one in leased)) == ["unknown"] * count
    assert all(task_row(backstage, one.task)["status"] == "working" for one in leased)


def test_session_above_serves_pooled_tasks_below(
    queue: Client, database: Database, hire: Hire
) -> None:
    """An agent that serves a subtree gets the tasks of all campaigns in it."""
    below = queue.create_campaign(CampaignSpec("/up/down", handler=HANDLER))
    below.submit({})
    pool = PoolDouble(database, below.campaign_id)
    agent = hire("/up")
    agent.campaign = below.campaign_id
    assert say(agent, *(report_of(one, DONE) for one in pool.lease(1))) == ["accepted"]


def test_first_beat_that_names_a_lease_gets_the_task(
    pool: PoolDouble, hire: Hire, backstage: Backstage
) -> None:
    """From then on it lives with that session, and ends with it."""
    agent = hire()
    leased = pool.lease(2)
    assert agent.beat(leased) == set()
    assert agent.beat(leased) == set()
    assert {task_row(backstage, one.task)["session_id"] for one in leased} == {agent.session}
    assert agent.leave() == 2


def test_task_named_for_an_agent_that_vanishes_counts_as_lost(
    pool: PoolDouble, database: Database, campaign: Campaign, hire: Hire, backstage: Backstage
) -> None:
    """A task that kills its agents before their first beat does not go round for ever."""
    agent = hire()
    (one,) = pool.lease(1)
    name(database, agent, one)
    assert task_row(backstage, one.task)["session_id"] == agent.session
    silence(backstage, agent.session)
    assert expire(backstage) == 1
    assert campaign.status().losses == 1


@pytest.mark.parametrize("pool_s", [120.0, 4.0])
def test_task_named_for_an_agent_that_never_got_it_goes_back_after_the_deadline(
    pool: PoolDouble,
    database: Database,
    campaign: Campaign,
    hire: Hire,
    backstage: Backstage,
    pool_s: float,
) -> None:
    """Not with a beat that may have been written before it was handed out; whatever clocks say."""
    backstage.execute("update taskq.front set pool_s = %s", [pool_s])
    agent = hire()
    (one,) = pool.lease(1)
    name(database, agent, one)
    late, early = "ffffffff-0001-7000-8000-000000000000", "00000000-0001-7000-8000-000000000000"
    agent.beat([], drawn=late)
    assert task_row(backstage, one.task)["session_id"] == agent.session
    backstage.execute(
        "update taskq.task set claimed_at = claimed_at - make_interval(secs => %s + 1)", [pool_s]
    )
    agent.beat([one], drawn=early)
    assert campaign.status().working == 1
    agent.beat([], drawn=early)
    assert campaign.status().waiting == 10


def test_beat_that_says_nothing_of_tasks_leaves_those_that_were_leased_ahead(
    pool: PoolDouble, database: Database, hire: Hire, campaign: Campaign, backstage: Backstage
) -> None:
    """However old they are: the agent may be at work on them."""
    agent = hire()
    (one,) = pool.lease(1)
    name(database, agent, one)
    backstage.execute("update taskq.task set claimed_at = claimed_at - interval '1 day'")
    agent.beat(None)
    assert campaign.status().working == 1
    agent.beat([])
    assert campaign.status().working == 0


def test_task_is_not_named_for_a_session_that_may_not_have_it(
    pool: PoolDouble, database: Database, queue: Client, hire: Hire, backstage: Backstage
) -> None:
    """Neither one that has ended nor one of another campaign."""
    queue.create_campaign("/other")
    gone, stranger = hire(), hire("/other")
    gone.leave()
    (one,) = pool.lease(1)
    name(database, gone, one)
    name(database, stranger, one)
    assert task_row(backstage, one.task)["session_id"] == 0


def test_second_to_name_a_lease_is_told_to_stop(pool: PoolDouble, hire: Hire) -> None:
    """An entry that was handed out twice is executed on, by one; one result is accepted."""
    first, second = hire(), hire()
    (one,) = pool.lease(1)
    assert first.beat([one]) == set()
    assert second.beat([one]) == {one.task}
    assert say(second, report_of(one, DONE)) == ["unknown"]
    assert say(first, report_of(one, DONE)) == ["accepted"]


def test_result_of_an_entry_handed_out_twice_is_accepted_once(pool: PoolDouble, hire: Hire) -> None:
    """Whoever reports first; the other's does not count."""
    first, second = hire(), hire()
    (one,) = pool.lease(1)
    assert say(second, report_of(one, DONE, result={"by": 2})) == ["accepted"]
    assert say(first, report_of(one, DONE, result={"by": 1})) == ["unknown"]
    assert first.beat([one]) == {one.task}


def test_lease_given_back_waits_again_uncounted(
    pool: PoolDouble, campaign: Campaign, hire: Hire
) -> None:
    """What was withdrawn from the lists is as if it had never been leased."""
    leased = pool.lease(4)
    named, done, *left = leased
    agent = hire()
    agent.beat([named])
    say(agent, report_of(done, DONE))
    assert pool.give_back(leased) == 2
    assert (campaign.status().waiting, campaign.status().working) == (8, 1)
    agent.forget_position()
    again = {one.task: one for one in agent.claim(10)}
    assert {again[one.task].attempt for one in left} == {1}
    assert say(hire(), report_of(left[0], DONE)) == ["unknown"]


def test_lost_entry_waits_again_after_the_pools_deadline(
    database: Database, campaign: Campaign, backstage: Backstage, hire: Hire
) -> None:
    """Redis may vanish with all that is in it; nothing counts as an attempt, nothing is lost."""
    pool = PoolDouble(database, campaign.campaign_id, pool_s=1.0)
    agent = hire()
    named, *_ = leased = pool.lease(5)
    agent.beat([named])
    assert value(backstage, "select taskq.expire_ahead()") == 0, "none is due yet"
    wait_until(lambda: value(backstage, "select taskq.expire_ahead()") == 4)
    assert (campaign.status().waiting, campaign.status().losses) == (9, 0)
    assert {task_row(backstage, one.task)["attempt"] for one in leased[1:]} == {0}
    assert say(hire(), report_of(leased[1], DONE)) == ["superseded"]
    assert agent.beat(leased) == {one.task for one in leased[1:]}


def test_what_the_front_has_lost_once_is_not_leased_ahead_again(
    database: Database, campaign: Campaign, backstage: Backstage, hire: Hire
) -> None:
    """Who empties the lists again and again cannot keep tasks from being claimed."""
    pool = PoolDouble(database, campaign.campaign_id, pool_s=1.0)
    lost = pool.lease(4)
    wait_until(lambda: value(backstage, "select taskq.expire_ahead()") == 4)
    assert {one.task for one in pool.lease(10)}.isdisjoint(one.task for one in lost)
    agent = hire()
    agent.forget_position()
    assert {one.task for one in agent.claim(10)} == {one.task for one in lost}


@pytest.mark.parametrize("outcome", [FAILED, RELEASED])
def test_what_an_agent_has_tried_may_be_leased_ahead_again(
    outcome: str, pool: PoolDouble, hire: Hire, backstage: Backstage
) -> None:
    """An attempt that was reported before any beat has named it is no entry that got lost."""
    agent = hire()
    (tried,) = pool.lease(1)
    assert say(agent, report_of(tried, outcome)) == ["accepted"]
    backstage.execute("update taskq.task set due_at = now() where status = 'delayed'")
    backstage.execute("select taskq.promote()")
    wait_until(lambda: tried.task in {one.task for one in pool.lease(10)})


def test_shares_do_not_count_what_waits_in_the_lists(
    pool: PoolDouble, queue: Client, database: Database
) -> None:
    """A campaign that is leased ahead runs no more tasks for that; it lacks its share as before."""
    queue.create_campaign(CampaignSpec("/other", handler=HANDLER)).seed([{"n": 1}])
    pool.lease(8)
    pool.keep((pool.campaign, 8, 0))
    rows = database.rows("servable", path="/", lifetime_s=None, offers=[], most=9)
    assert {row["desire"] for row in rows} == {0.5}


def test_deadline_passes_over_what_is_locked_and_comes_back_to_it(
    database: Database, campaign: Campaign, backstage: Backstage
) -> None:
    """A report that is under way at that moment wins; if it fails, the task is found later."""
    pool = PoolDouble(database, campaign.campaign_id, pool_s=1.0)
    one, other = pool.lease(2)
    with database.transaction() as statements:
        statements.script(f"select from taskq.task where task_id = {one.task} for update")
        wait_until(lambda: value(backstage, "select taskq.expire_ahead()") == 1)
        assert task_row(backstage, other.task)["status"] == "waiting"
        assert value(backstage, "select taskq.expire_ahead()") == 0
    wait_until(lambda: value(backstage, "select taskq.expire_ahead()") == 1)


def test_pool_is_nobodys_session_and_never_lost_with_one(
    pool: PoolDouble, campaign: Campaign, backstage: Backstage
) -> None:
    """Upkeep that looks for silent agents leaves the pool alone."""
    pool.lease(3)
    assert expire(backstage) == 0
    assert campaign.status().working == 3


def test_new_epoch_leases_under_a_new_secret_and_ends_the_old_one(pool: PoolDouble) -> None:
    """Entries of another epoch do not authenticate, and a refiller that is late leases nothing."""
    before, old = pool.state, pool.entries(1)
    assert pool.begin() == before["epoch"] + 1
    assert pool.entries(1, epoch=before["epoch"]) == []
    with pytest.raises(AssertionError):
        pool.read(old[0])
    assert pool.lease(1)


def test_campaign_that_is_closed_or_limited_is_not_leased_ahead(
    pool: PoolDouble, queue: Client, campaign: Campaign
) -> None:
    """Paused, cancelled above, limited or kept from the front: told once, and leased no more."""
    stocked = (pool.campaign, 5, 0)
    assert pool.keep(stocked)["closed"] is None
    campaign.pause()
    assert (pool.keep(stocked)["closed"], pool.lease(1)) == ([pool.campaign], [])
    campaign.resume()
    for spec in (
        CampaignSpec("/c", handler=HANDLER, max_running=5),
        CampaignSpec("/c", handler=HANDLER, front=False),
    ):
        campaign.change(spec)
        assert (pool.keep(stocked)["closed"], pool.lease(1)) == ([pool.campaign], [])
    campaign.change(CampaignSpec("/c", handler=HANDLER))
    assert pool.keep(stocked)["closed"] is None
    queue.campaign("/").pause()
    assert (pool.keep(stocked)["closed"], pool.lease(1)) == ([pool.campaign], [])


def test_one_refiller_acts_and_another_takes_over(pool: PoolDouble, backstage: Backstage) -> None:
    """As for keepers: within a term of the first's last round."""
    other = str(uuid.uuid4())
    assert pool.keep()["acting"]
    assert not pool.keep(holder=other)["acting"]
    backstage.execute("update taskq.front_refiller set until = clock_timestamp()")
    assert pool.keep(holder=other)["acting"]
    assert not pool.keep()["acting"]


def test_last_tasks_of_a_campaign_are_claimable_while_they_are_in_the_pool(
    pool: PoolDouble, database: Database
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
        told = database.row("claimable", servings=servings, front=front)
        assert told is not None
        assert told["claimable"] == claimable, "whom no list serves is not woken for what is in it"
    pool.keep()
    assert chosen() == []


def test_cancelled_task_of_the_pool_was_no_attempt(
    pool: PoolDouble, campaign: Campaign, backstage: Backstage, hire: Hire
) -> None:
    """Nobody has worked on it, as far as anybody knows."""
    leased = pool.lease(2)
    campaign.cancel()
    assert campaign.status().cancelled == 10
    assert value(backstage, "select count(*) from taskq.attempt") == 0
    assert task_row(backstage, leased[0].task)["attempt"] == 0
    assert hire().beat(leased) == {one.task for one in leased}


def test_misformed_arguments_are_refused_and_change_nothing(
    pool: PoolDouble, database: Database
) -> None:
    """What the refiller cannot have meant is told, in the queue's words."""
    (one,) = pool.lease(1)
    for most in (-1, 1_001):
        with pytest.raises(Exception, match="0 to 1000"):
            pool.lease(most)
    with pytest.raises(Exception, match="a lease for each"):
        database.value("return_ahead", campaigns=[1], tasks=[None], leases=[one.lease])
    for stocked in ('{"a": 1}', "[[1]]", "[[1, 2, 3], [1, 2, 3]]"):
        with pytest.raises(Exception, match="not what the front holds"):
            database.row("keep_front", holder=pool.holder, term_s=10.0, stocked=stocked, look=True)
    assert pool.give_back([one]) == 1


def test_stale_lease_gives_nothing_back(pool: PoolDouble, hire: Hire) -> None:
    """Whatever a list held: only the very lease that the task is under counts."""
    (one,) = pool.lease(1)
    forged = Claimed(one.campaign, one.task, str(uuid.uuid4()), 1, "", {})
    assert pool.give_back([forged]) == 0
    assert say(hire(), report_of(one, DONE)) == ["accepted"]
