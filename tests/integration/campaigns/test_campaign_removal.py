"""Campaigns that are removed, with all that is below them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import sql

from taskq import Client
from taskq.db.connections import Database
from taskq.model.errors import Conflict
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import tasks_of
from tests.helpers.postgres import (
    Postgres,
    assert_counts_are_true,
    blocked,
    expire,
    silence,
)
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.both_transports


def test_removed_campaign_leaves_nothing(queue: Client, hire: Hire, postgres: Postgres) -> None:
    """Tasks, specs, attempts, counts and all campaigns below it are gone; others are not."""
    tasks_of(queue, "/a /a/b /z", 3)
    agent = hire("/a/b")
    done, *_ = agent.claim(2)
    agent.done(done)
    other = hire("/z")
    other.done(other.claim(1)[0])
    assert queue.campaign("/a").remove() == 6
    assert [node.path for node in queue.campaign("/").tree()] == ["/", "/z"]
    for table in ("spec", "task", "attempt", "counter", "delta"):
        left = postgres.execute(
            sql.SQL(
                "select from taskq.{}"
                " where campaign_id not in (select campaign_id from taskq.campaign)"
            ).format(sql.Identifier(table))
        )
        assert left.rowcount == 0, table
    assert queue.campaign("/").status().total == 3
    assert_counts_are_true(postgres)


def test_counts_are_true_while_a_campaign_is_being_removed(
    queue: Client, database: Database, hire: Hire, postgres: Postgres
) -> None:
    """Failures and losses go with the tasks that they are of."""
    tasks_of(queue, "/a", 4)
    agent, lost = hire("/a"), hire("/a")
    agent.fail(agent.claim(1)[0])
    agent.done(agent.claim(1)[0])
    lost.claim(1)
    silence(postgres, lost.session)
    assert expire(postgres) == 1
    campaign = queue.campaign("/a")
    campaign.cancel()
    for _ in range(4):
        database.rows("remove_tasks", campaign=campaign.campaign_id, limit=1)
        assert_counts_are_true(postgres)


def test_report_on_a_removed_campaign_is_unknown(queue: Client, hire: Hire) -> None:
    """An agent that did not notice gets a verdict that is final."""
    tasks_of(queue, "/a")
    agent = hire("/a")
    (task,) = agent.claim(1)
    queue.campaign("/a").remove()
    assert agent.done(task) == "unknown"
    assert agent.heartbeat([task]) == {task.task}
    assert agent.claim(1) == []


def test_only_empty_campaigns_can_be_removed_by_the_verb(queue: Client, database: Database) -> None:
    """What is in use stays; the root stays for ever."""
    tasks_of(queue, "/a /b/c", 0)
    queue.campaign("/a").seed([{"n": 1}])
    for path in ("/a", "/b", "/"):
        with pytest.raises(Conflict, match="not empty"):
            database.rows("remove_campaign", path=path)
    campaign = queue.campaign("/a").campaign_id
    with pytest.raises(Conflict, match="not cancelled"):
        database.rows("remove_tasks", campaign=campaign, limit=10)


def test_removal_and_folding_do_not_deadlock(queue: Client, dsn: str, postgres: Postgres) -> None:
    """A campaign is removed while a fold has its deltas in hand, and not yet its counter."""
    tasks_of(queue, " ".join(f"/a{n}" for n in range(10)))
    campaign = queue.campaign("/a5")
    with psycopg.connect(dsn) as holder, ThreadPoolExecutor(2) as pool:
        holder.execute(
            "select from taskq.counter where campaign_id <> %s for update", [campaign.campaign_id]
        )
        folding = pool.submit(postgres.execute, "select taskq.fold('0')")
        wait_until(lambda: blocked(dsn) == 1)
        removing = pool.submit(campaign.remove)
        wait_until(lambda: blocked(dsn) == 2)
        holder.commit()
        folding.result(timeout=60)
        assert removing.result(timeout=60) == 2
    assert_counts_are_true(postgres)
