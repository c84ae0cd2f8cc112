"""Claims meet each other, and what takes tasks or sessions away under them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg.rows import dict_row

from taskq import Campaign, CampaignSpec, Client
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, expire, promote, task_row, value
from tests.helpers.scripted_agent import Claimed, ScriptedAgent
from tests.helpers.waiting import wait_until
from tests.interleavings.meeting import calling, cancelling, claiming, in_turn, meet, reporting

WORKING = "select count(*) from taskq.state where status = 'working'"


@pytest.mark.parametrize("limit", ["max_running", "max_running_per_site"])
@pytest.mark.parametrize(("undo", "left"), [(False, 2), (True, 4)])
def test_limit_holds_for_a_claim_that_meets_another(
    limit: str, undo: bool, left: int, queue: Client, hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """It waits, and counts what the other has taken, unless that was undone.

    GoodJob counts, then acts, and two that count at once exceed the limit together
    (bensheldon/good_job#378).
    """
    campaign = queue.create_campaign(CampaignSpec("/limited", **{limit: 5}))
    campaign.seed({"n": n} for n in range(20))
    first, second = hire("/limited"), hire("/limited")
    met = meet(dsn, claiming(first, 3), claiming(second, 4), undo=undo)
    assert met.waited
    assert (len(met.first), len(met.second)) == (3, left)
    assert value(postgres, WORKING) == (4 if undo else 5)


@pytest.mark.parametrize("usable_us", [4_000_000, -1_000_000])
def test_claim_that_waits_for_room_keeps_no_span_from_those_ahead(
    usable_us: int, queue: Client, hire: Hire, dsn: str
) -> None:
    """Else the one that has its turn finds the only span locked, and gets nothing."""
    campaign = queue.create_campaign(CampaignSpec("/limited", max_running=5))
    campaign.seed({"n": n} for n in range(2))
    first, second = hire("/limited"), hire("/limited")
    turn = calling(
        "select pg_advisory_xact_lock(hashtext('taskq.room'), hashint8(%s))", campaign.campaign_id
    )
    # Where the last claim of the connection was, and for how long that may be used.
    place = calling(
        """
        select set_config(
                   'taskq.position_' || s.campaign_id,
                   array[-32768, 0, extract(epoch from now())::bigint * 1000000 + %s,
                         0, 0, s.first_id]::text, false)
          from taskq.span s
        """,
        usable_us,
    )
    got: list[Claimed] = []
    met = meet(
        dsn,
        turn,
        in_turn(place, claiming(second)),
        meanwhile=lambda early: got.extend(claiming(first)(early)),
    )
    assert met.waited
    assert (len(got), len(met.second[1])) == (1, 1)


@pytest.mark.parametrize("limit", ["max_running", "max_running_per_site"])
def test_room_made_by_a_report_is_not_given_away_before_that_commits(
    limit: str, queue: Client, hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """What ends is seen late, never early."""
    campaign = queue.create_campaign(CampaignSpec("/limited", **{limit: 1}))
    campaign.seed({"n": n} for n in range(3))
    first, second = hire("/limited"), hire("/limited")
    (task,) = first.claim(1)
    assert meet(dsn, reporting(task), claiming(second), undo=True).second == []
    assert value(postgres, WORKING) == 1


@pytest.mark.parametrize("want", [1, 2, 7])
@pytest.mark.parametrize("statistics", ["absent", "empty", "true"])
def test_claim_takes_as_many_as_it_wants_while_others_claim(
    want: int,
    statistics: str,
    campaign: Campaign,
    hire: Hire,
    postgres: Postgres,
    dsn: str,
) -> None:
    """Rows that others hold are passed over; nothing beyond what is answered is touched.

    With `where id in (select ... limit n for update skip locked)` the planner may run the
    sub-select again for each row: odd-jobs got several rows for a limit of one and left them
    locked (saurabhnanda/odd-jobs#115).
    """
    if statistics == "empty":
        postgres.execute("analyze")
    campaign.seed({"n": n} for n in range(40))
    if statistics == "true":
        postgres.execute("analyze")
    first, second = hire(), hire()
    met = meet(dsn, claiming(first, want), claiming(second, want))
    assert not met.waited
    assert len(met.first) == len(met.second) == want
    assert {task.task for task in met.first}.isdisjoint(task.task for task in met.second)
    assert value(postgres, WORKING) == 2 * want
    # By way of take_each() as well, which goes on behind the hint of a connection.
    act = in_turn(claiming(first, want), claiming(first), claiming(first))
    assert [len(tasks) for tasks in meet(dsn, act, claiming(second)).first] == [want, 1, 1]
    assert value(postgres, WORKING) == 3 * want + 3


@pytest.mark.parametrize("position", ["kept", "given up"])
def test_connections_whose_position_is_the_same_span_do_not_wait(
    position: str, campaign: Campaign, hire: Hire, dsn: str
) -> None:
    """The second takes its task from another span, whether or not it has to look for one."""
    campaign.seed({"n": n} for n in range(640))  # in spans of twenty
    first, second = hire(), hire()
    with (
        psycopg.connect(dsn, row_factory=dict_row, autocommit=True) as early,
        psycopg.connect(dsn, row_factory=dict_row, autocommit=True) as late,
    ):
        late.execute("set lock_timeout = '20s'")
        for connection, agent in ((early, first), (late, second)) * 2:
            claiming(agent)(connection)
            if position == "given up":
                connection.execute(f"set taskq.position_{campaign.campaign_id} = ''")
        with early.transaction():
            taken = claiming(first)(early) + claiming(second)(late)
    assert len({task.task for task in taken}) == 2


@pytest.mark.parametrize("want", [1, 3])
def test_claim_that_is_asked_again_before_it_commits_gets_the_same_tasks(
    want: int, campaign: Campaign, hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """An agent lost patience with one gateway and asks another, while the first is at work."""
    campaign.seed({"n": n} for n in range(10))
    agent = hire()
    lease = agent.draw_lease()
    met = meet(dsn, claiming(agent, want, lease), claiming(agent, want, lease))
    assert met.second == met.first
    assert value(postgres, WORKING) == want


@pytest.mark.parametrize("want", [1, 3])
def test_claim_under_the_lease_id_of_another_session_waits_for_nobody(
    want: int, campaign: Campaign, hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """Agents draw lease ids: one that draws another's must not hold up who shares its statement."""
    campaign.seed({"n": n} for n in range(10))
    first, second = hire(), hire()
    lease = first.draw_lease()
    met = meet(dsn, claiming(first, want, lease), claiming(second, want, lease))
    assert not met.waited
    assert len(met.first) == len(met.second) == want
    assert {task.task for task in met.first}.isdisjoint(task.task for task in met.second)
    assert value(postgres, WORKING) == 2 * want


def test_claim_that_is_asked_again_gets_others_if_the_first_was_undone(
    campaign: Campaign, hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """Or the same; what counts is that nothing is kept for nobody."""
    campaign.seed({"n": n} for n in range(10))
    agent = hire()
    lease = agent.draw_lease()
    met = meet(dsn, claiming(agent, 3, lease), claiming(agent, 3, lease), undo=True)
    assert len(met.second) == 3
    assert value(postgres, WORKING) == 3


def test_cancellation_that_meets_a_claim_cancels_the_attempt(
    agent: ScriptedAgent, campaign: Campaign, dsn: str
) -> None:
    """Which has just begun; its agent gets the order to stop."""
    met = meet(dsn, claiming(agent), cancelling(campaign.campaign_id))
    assert (met.waited, met.second) == (True, 2)
    (task,) = met.first
    assert [attempt.outcome for attempt in campaign.attempts("a")] == ["cancelled"]
    assert campaign.attempts("b") == []
    assert agent.heartbeat([task]) == {task.task}


def test_claim_passes_over_what_is_being_cancelled(
    agent: ScriptedAgent, campaign: Campaign, postgres: Postgres, dsn: str
) -> None:
    """It takes nothing that is about to be final, and waits a moment only for the last span."""
    met = meet(dsn, cancelling(campaign.campaign_id), claiming(agent, 2))
    assert (met.first, met.second) == (2, [])
    assert value(postgres, WORKING) == 0


@pytest.mark.parametrize("first", ["claim", "end"])
def test_claim_that_meets_the_end_of_its_session_is_handed_out_again(
    first: str, agent: ScriptedAgent, campaign: Campaign, postgres: Postgres, dsn: str
) -> None:
    """Upkeep looks through sessions that ended a while ago, and it counts as released.

    Solid Queue let a process be deregistered while it claimed, and the jobs stayed with a process
    that was no more (rails/solid_queue#244).
    """
    end = calling("select taskq.end_session(%s)", agent.session)
    if first == "claim":
        met = meet(dsn, claiming(agent), end)
        claimed, ended = met.first, met.second
    else:
        met = meet(dsn, end, claiming(agent))
        claimed, ended = met.second, met.first
    assert (met.waited, len(claimed), ended) == (False, 1, 0)
    assert campaign.status().working == 1
    assert expire(postgres) == 0
    row = task_row(postgres, claimed[0].task)
    assert (row["status"], row["losses"]) == ("waiting", 0)


def test_attempt_of_the_last_moment_ends_after_it_began(
    agent: ScriptedAgent, postgres: Postgres, dsn: str
) -> None:
    """The end of a session takes its time behind the locks, not when it starts to look."""

    def hold(connection: Postgres) -> None:
        connection.execute("lock table taskq.bundle in access exclusive mode")

    end = calling("select taskq.end_session(%s)", agent.session)
    met = meet(dsn, hold, end, meanwhile=claiming(agent))
    assert (met.waited, met.second) == (True, 1)
    assert value(postgres, "select claimed_at < ended_at from taskq.attempt") is True


def test_session_outlives_its_tasks(postgres: Postgres) -> None:
    """Nothing removes a session but what asks for its tasks first; by its row these are found.

    Procrastinate prunes the row of a stalled worker, after which its jobs are `doing` for ever
    (procrastinate-org/procrastinate#1518).
    """
    removing = postgres.execute(
        "select p.proname from pg_proc p"
        " where p.pronamespace = 'taskq'::regnamespace"
        r" and p.prosrc ~* '(delete\s+from|truncate)\s+(only\s+|table\s+)?taskq\.session\y'"
    ).fetchall()
    assert [row["proname"] for row in removing] == ["remove_unused_sessions"]


def test_lost_race_for_the_last_task_is_no_error(campaign: Campaign, hire: Hire, dsn: str) -> None:
    """Anyone who comes second gets nothing at once, and the task if the first is undone."""
    campaign.seed([{"n": 1}])
    first, second = hire(), hire()
    met = meet(dsn, claiming(first), claiming(second), undo=True)
    assert (met.waited, len(met.first), met.second) == (False, 1, [])
    assert len(second.claim(1)) == 1


def test_task_is_in_one_pair_of_hands(held: list[Claimed], hire: Hire, dsn: str) -> None:
    """One handed back and claimed again in a transaction is out of reach until it commits."""
    other, third = hire(), hire()
    act = in_turn(reporting(*held, outcome="released", started=False), claiming(other, 2))
    met = meet(dsn, act, claiming(third, 2))
    assert (met.waited, met.second) == (False, [])
    assert [other.done(task) for task in met.first[1]] == ["accepted"] * 2


@pytest.mark.parametrize("want", [1, 2])
def test_attempt_begins_after_that_before_it_has_ended(
    want: int,
    agent: ScriptedAgent,
    held: list[Claimed],
    hire: Hire,
    postgres: Postgres,
    dsn: str,
) -> None:
    """Also by the clock, when a claim was under way before the report that gave it the task."""
    second = hire()
    agent.release(held[0], started=False)
    second.claim(1)  # behind it, the next goes by way of take_each()
    with psycopg.connect(dsn, row_factory=dict_row) as other, ThreadPoolExecutor(1) as pool:
        other.execute("lock table taskq.session in access exclusive mode")
        claim = pool.submit(second.claim, want)
        wait_until(lambda: value(postgres, "select count(*) from pg_locks where not granted") == 1)
        assert agent.release(held[1], started=True) == "accepted"
        other.commit()
        (task,) = claim.result(timeout=60)
    assert (task.task, task.attempt) == (held[1].task, 2)
    ended = "select ended_at from taskq.attempt where task_id = %s"
    assert task_row(postgres, task.task)["claimed_at"] > value(postgres, ended, task.task)


def test_claims_of_what_has_failed_take_no_task_twice_and_wait_for_nobody(
    campaign: Campaign, hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """Each gets what the other has not locked, first what has failed on a third host."""
    campaign.seed({"n": n} for n in range(10))
    failing, first, second = hire(host="a"), hire(host="b"), hire(host="c")
    failed = failing.claim(4)
    for task in failed:
        assert failing.fail(task) == "accepted"
    assert promote(postgres) == 4
    met = meet(dsn, claiming(first, 2), claiming(second, 2))
    assert not met.waited
    assert sorted(task.task for task in [*met.first, *met.second]) == [task.task for task in failed]
