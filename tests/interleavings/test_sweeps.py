"""One row that is locked, or of something that is gone, does not keep a sweep from the others.

One job with a conflict aborted every rescue of awa, for all stuck jobs of the cluster, tick after
tick (hardbyte/awa#388), and every staging of Oban Pro (oban-bg/oban#1416).
"""

from __future__ import annotations

import json

import pytest

from taskq import Campaign, Client
from taskq.db.connections import Database
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres, assert_counts_are_true, expire, promote, silence, value
from tests.helpers.scripted_agent import Claimed, ScriptedAgent
from tests.helpers.scripted_pool import ScriptedPool
from tests.helpers.waiting import wait_until
from tests.interleavings.meeting import EXPIRE, calling, locking, meet

KEEP = "select lost, promoted from taskq.keep(gen_random_uuid(), 0)"


def statuses_of(tasks: list[Claimed], postgres: Postgres) -> list[str]:
    query = "select status::text from taskq.state where task_id = %s"
    return [str(value(postgres, query, task.task)) for task in tasks]


@pytest.fixture
def crew(campaign: Campaign, hire: Hire) -> list[ScriptedAgent]:
    """Give three agents of a campaign with twelve tasks."""
    campaign.seed({"n": n} for n in range(12))
    return [hire() for _ in range(3)]


def test_locked_session_does_not_keep_others_from_expiring(
    crew: list[ScriptedAgent], postgres: Postgres, dsn: str
) -> None:
    """It is looked at by the next round."""
    for agent in crew:
        agent.claim_singly(2)
        silence(postgres, agent.session)
    lock = calling(
        "select session_id from taskq.session where session_id = %s for update", crew[0].session
    )
    met = meet(dsn, lock, EXPIRE)
    assert (met.waited, met.second) == (False, 4)
    assert expire(postgres) == 2


def test_locked_task_keeps_neither_its_session_nor_others_from_expiring(
    crew: list[ScriptedAgent], postgres: Postgres, dsn: str
) -> None:
    """The session's other tasks, and those of all others, are handed out at once."""
    held = [agent.claim_singly(2) for agent in crew]
    for agent in crew:
        silence(postgres, agent.session)
    met = meet(dsn, locking(held[0][0].task), EXPIRE)
    assert (met.waited, met.second) == (False, 5)
    assert statuses_of(held[0], postgres) == ["working", "waiting"]
    assert expire(postgres) == 1


def test_locked_task_does_not_keep_others_from_being_promoted(
    crew: list[ScriptedAgent], postgres: Postgres, dsn: str
) -> None:
    """Though it has been due the longest."""
    tasks = crew[0].claim_singly(4)
    for task in tasks:
        crew[0].fail(task)
    postgres.execute(
        "update taskq.task set due_at = now() - make_interval(mins => 99 - task_id::int)"
        " where status = 'delayed'"
    )
    met = meet(dsn, locking(tasks[0].task), calling("select taskq.promote_delayed()"))
    assert (met.waited, met.second) == (False, 3)
    assert promote(postgres) == 1


def test_round_of_upkeep_passes_over_what_is_locked(
    crew: list[ScriptedAgent], postgres: Postgres, dsn: str
) -> None:
    """All its parts, in one transaction."""
    doomed, failing = crew[0].claim_singly(2), crew[1].claim_singly(2)
    silence(postgres, crew[0].session)
    for task in failing:
        crew[1].fail(task)
    postgres.execute("update taskq.task set due_at = now() where status = 'delayed'")

    def lock(connection: Postgres) -> None:
        locking(doomed[0].task)(connection)
        locking(failing[0].task)(connection)

    met = meet(dsn, lock, calling(KEEP))
    assert (met.waited, met.second) == (False, (1, 1))
    assert calling(KEEP)(postgres) == (1, 1)


def test_locked_task_does_not_keep_a_heartbeat_from_handing_on_others(
    crew: list[ScriptedAgent], postgres: Postgres, dsn: str
) -> None:
    """Of its own session or of others in the same statement; the next beat finds it."""
    held = [agent.claim_singly(2) for agent in crew]
    beats = json.dumps(
        [{"session": agent.session, "held": [], "drawn": agent.drawn} for agent in crew]
    )
    beat = calling("select count(*) from taskq.beat(%s)", beats)
    met = meet(dsn, locking(held[0][0].task), beat)
    assert (met.waited, met.second) == (False, 0)
    assert statuses_of(held[0] + held[1] + held[2], postgres) == ["working", *["waiting"] * 5]
    beat(postgres)
    assert statuses_of(held[0], postgres) == ["waiting"] * 2


def test_rows_of_a_campaign_that_is_gone_stop_no_sweep(
    crew: list[ScriptedAgent], postgres: Postgres
) -> None:
    """Such as a restore of some tables only leaves behind: the sweep serves all others."""
    held = crew[0].claim_singly(2)
    delayed = crew[1].claim_singly(2)
    for task in delayed:
        crew[1].fail(task)
    for task in (held[0], delayed[0]):
        postgres.execute(
            "update taskq.task set campaign_id = 1000000, due_at = now() where task_id = %s",
            [task.task],
        )
    postgres.execute("insert into taskq.delta (campaign_id, waiting) values (1000000, 1)")
    silence(postgres, crew[0].session)
    postgres.execute("update taskq.task set due_at = now() where status = 'delayed'")
    assert value(postgres, "select lost from taskq.keep(gen_random_uuid(), 0)") == 1
    for _ in range(2):
        assert value(postgres, "select acting from taskq.keep(gen_random_uuid(), 0)")
    assert statuses_of([held[1], delayed[1]], postgres) == ["waiting"] * 2
    recorded = "select count(*) from taskq.attempt where task_id = %s and outcome = 'lost'"
    assert [value(postgres, recorded, task.task) for task in held] == [0, 1]
    postgres.execute("delete from taskq.task where campaign_id = 1000000")
    postgres.execute(
        "insert into taskq.delta (campaign_id, working, delayed) values (%s, -1, -1)",
        [crew[0].campaign],
    )
    assert_counts_are_true(postgres)


def test_attempt_that_is_recorded_already_stops_no_sweep(
    crew: list[ScriptedAgent], postgres: Postgres
) -> None:
    """Such as a restore of some tables only leaves behind: the record stays as it is."""
    held = crew[0].claim_singly(2)
    crew[0].done(held[0])
    postgres.execute(
        """
        insert into taskq.task (
               campaign_id, task_id, lease_id, session_id, claimed_at, status, attempt)
        select campaign_id, task_id, lease_id, session_id, claimed_at, 'working', 1
          from taskq.attempt
         where task_id = %s
        """,
        [held[0].task],
    )
    silence(postgres, crew[0].session)
    assert value(postgres, "select lost from taskq.keep(gen_random_uuid(), 0)") == 2
    assert statuses_of(held, postgres) == ["waiting"] * 2
    outcome = "select outcome::text from taskq.attempt where task_id = %s"
    assert [value(postgres, outcome, task.task) for task in held] == ["done", "lost"]
    postgres.execute(
        "insert into taskq.delta (campaign_id, done, working, losses) values (%s, -1, 1, -1)",
        [crew[0].campaign],
    )
    assert_counts_are_true(postgres)


@pytest.mark.thorough
def test_lease_that_commits_after_its_deadline_is_found_by_the_next_sweep(
    queue: Client, database: Database, postgres: Postgres, dsn: str
) -> None:
    """A commit may wait for a standby for that long, and younger leases be swept meanwhile."""
    campaign = servable(queue, "/ahead")
    for n in range(2):
        campaign.seed([{"n": n}])  # each with a row of its own
    pool = ScriptedPool(database, campaign.campaign_id, pool_s=1.0)
    sweep = calling("select taskq.expire_ahead()")

    def sweep_a_younger_one(connection: Postgres) -> None:
        assert len(pool.lease(1)) == 1
        wait_until(lambda: sweep(connection) == 1)

    query = "select cardinality(entries) from taskq.lease_ahead(%s, %s, 1)"
    lease = calling(query, pool.state["epoch"], campaign.campaign_id)
    met = meet(dsn, lease, sweep_a_younger_one)
    assert (met.waited, met.first) == (False, 1)
    assert sweep(postgres) == 1
    assert campaign.status().waiting == 2


def test_sweep_under_way_keeps_nothing_from_being_leased(
    queue: Client, database: Database, postgres: Postgres, dsn: str
) -> None:
    """It is a part of the upkeep's transaction, which may fold for long, and claims would wait."""
    campaign = servable(queue, "/ahead")
    campaign.seed([{}])
    pool = ScriptedPool(database, campaign.campaign_id, pool_s=1.0)
    query = "select cardinality(entries) from taskq.lease_ahead(%s, %s, 1)"
    lease = calling(query, pool.state["epoch"], campaign.campaign_id)
    deadline_passed = "select taskq.serving_since() < clock_timestamp() - interval '1 s'"
    wait_until(lambda: value(postgres, deadline_passed))  # before, there is nothing to sweep
    met = meet(dsn, calling("select taskq.expire_ahead()"), lease)
    assert (met.waited, met.second) == (False, 1)
