"""Sums of all campaigns below one: kept by folds, exact at every moment."""

from __future__ import annotations

import itertools
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg.rows import dict_row

from taskq import CampaignSpec, Client, connect
from taskq.diagnosis.campaign_tree import read_tree, tree_now
from taskq.diagnosis.tree_readings import TreeReadings
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import TRUE
from tests.helpers.postgres import Postgres

COUNTS = "waiting", "delayed", "working", "done", "failed", "cancelled", "failures", "losses"
LARGE = """
    with top as (
        select * from taskq.campaign where path = '/old'
    ), new as (
        insert into taskq.campaign (parent_id, path, lineage)
        select t.campaign_id, '/old/' || n, t.lineage from top t, generate_series(1, 1100) n
     returning campaign_id
    ), counted as (
        insert into taskq.counter (campaign_id) select campaign_id from new
    ), summed as (
        insert into taskq.subtotal (campaign_id) select campaign_id from new
    )
    insert into taskq.delta (campaign_id, done, failed, children)
    select campaign_id, 2, (row_number() over () = 7)::integer, null from new
     union all
    select campaign_id, 0, 0, 1100 from top
"""
LINEAGES = """
    update taskq.campaign c set lineage = p.lineage || c.campaign_id
      from taskq.campaign p
     where p.campaign_id = c.parent_id and p.path = '/old'
"""


@pytest.fixture
def large(queue: Client, postgres: Postgres) -> Client:
    """Give a queue with 1,100 ended campaigns below `/old`; in one a task has failed."""
    queue.create_campaign("/old")
    postgres.execute(LARGE)
    postgres.execute(LINEAGES)
    postgres.execute("select taskq.fold('0')")
    return queue


def sums(postgres: Postgres) -> dict[str, tuple[int, ...]]:
    """Return the counts of all campaigns with all below, added up one by one."""
    own = postgres.execute("select * from taskq.counts('/', null)").fetchall()
    return {
        top["path"]: tuple(
            sum(row[name] for row in own if row["path"] == top["path"] or is_below(row, top))
            for name in COUNTS
        )
        for top in own
    }


def is_below(row: dict[str, str], top: dict[str, str]) -> bool:
    return row["path"].startswith(top["path"].rstrip("/") + "/")


def assert_sums_are_true(postgres: Postgres) -> None:
    for path, counted in sums(postgres).items():
        row = postgres.execute("select * from taskq.counts(%s, 0)", [path]).fetchone()
        assert row is not None
        assert (path, tuple(row[name] for name in COUNTS)) == (path, counted)


@pytest.mark.parametrize("rest", ["0", "20 s"])
def test_sums_of_a_tree_are_those_of_its_campaigns(
    queue: Client, hire: Hire, postgres: Postgres, rest: str
) -> None:
    """Whether moves are folded or not; at each level; also after a removal."""
    for path in ("/a/b/c", "/a/b/d", "/e"):
        queue.create_campaign(CampaignSpec(path, handler=TRUE)).seed([{"n": n} for n in range(3)])
        postgres.execute("select taskq.fold(%s)", [rest])
        assert_sums_are_true(postgres)
    agent = hire("/a/b/c")
    tasks = agent.claim(2)
    agent.done(tasks[0])
    postgres.execute("select taskq.fold(%s)", [rest])
    agent.fail(tasks[1])
    assert_sums_are_true(postgres)
    queue.campaign("/a/b/d").remove()
    assert_sums_are_true(postgres)
    postgres.execute("select taskq.fold('0')")
    assert_sums_are_true(postgres)
    assert list(queue.audit()) == []


@pytest.mark.thorough
def test_sums_are_true_in_each_snapshot_while_campaigns_come_and_go(
    queue: Client, dsn: str, postgres: Postgres
) -> None:
    """Creation, seeding, cancellation, removal and folds, all at once; nobody deadlocks."""
    queue.create_campaign("/a/b")
    ended = threading.Event()

    def live(number: int) -> None:
        draw = random.Random(number)
        with connect(dsn) as client:
            for life in range(12):
                campaign = client.create_campaign(f"/a/b/{number}/{life}")
                campaign.seed([{"n": n} for n in range(draw.randint(1, 9))])
                if draw.random() < 0.5:
                    campaign.cancel()
                if draw.random() < 0.7:
                    campaign.remove()

    def fold() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            for rest in itertools.cycle(["0", "20 s"]):
                connection.execute("select taskq.fold(%s)", [rest])
                if ended.is_set():
                    return

    with ThreadPoolExecutor(6) as pool, psycopg.connect(dsn, row_factory=dict_row) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        folding = [pool.submit(fold) for _ in range(2)]
        lives = [pool.submit(live, number) for number in range(3)]
        try:
            while not all(future.done() for future in lives):
                assert_sums_are_true(reader)
                reader.rollback()
        finally:
            ended.set()
        for future in (*lives, *folding):
            future.result()
    assert list(queue.audit()) == []
    postgres.execute("select taskq.fold('0')")
    assert_sums_are_true(postgres)
    assert list(queue.audit()) == []


def test_sum_that_is_wrong_is_found(queue: Client, postgres: Postgres) -> None:
    """The audit names the figure, with what is there."""
    queue.create_campaign("/a/b").seed([{"n": 1}])
    postgres.execute("select taskq.fold('0')")
    postgres.execute(
        "update taskq.subtotal s set waiting = 7 from taskq.campaign c"
        " where c.campaign_id = s.campaign_id and c.path = '/a'"
    )
    (violation,) = queue.audit()
    assert (violation.campaign, violation.check) == ("/a", "subtotals")
    assert "7 waiting are summed below it, 1 are counted" in violation.text


@pytest.mark.thorough
def test_large_queue_is_explained_by_what_is_unfinished_failed_or_new(
    large: Client, postgres: Postgres
) -> None:
    """Its ended campaigns are in the sums, one by one they are not read."""
    large.create_campaign(CampaignSpec("/new/x", handler=TRUE)).seed([{"n": n} for n in range(4)])
    large.create_campaign("/shut")
    large.campaign("/shut").pause()
    for _ in range(2):
        nodes = read_tree(large.queries, "/").nodes
        assert {"/", "/new", "/new/x", "/old", "/old/7", "/shut"} <= {*nodes}
        assert len(nodes) < 60
        counted = sums(postgres)
        for path, node in nodes.items():
            assert tuple(getattr(node.status, name) for name in COUNTS) == counted[path], path
        whole = tree_now(TreeReadings("/", whole=True), large.queries).nodes
        assert len(whole) == 1_105
        for path, node in nodes.items():
            assert node.own == whole[path].own, path
            assert node.status == whole[path].status, path
            assert node.forecast == whole[path].forecast, path
        postgres.execute("select taskq.fold('0')")
