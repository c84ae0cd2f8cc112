"""Counts: exact in every snapshot, whatever commits late, and cheap however many tasks."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from psycopg.rows import dict_row

from taskq import Campaign, Client
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, assert_counts_are_true, value
from tests.helpers.scripted_agent import ScriptedAgent
from tests.helpers.waiting import wait_until

CLAIM = "select taskq.exchange(%s, null, %s, array[gen_random_uuid()], %s)"


@contextmanager
def snapshot(dsn: str) -> Iterator[Postgres]:
    """Give a connection that sees the database as it is at the first look."""
    with psycopg.connect(dsn, row_factory=dict_row) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        assert_counts_are_true(connection)
        yield connection


@contextmanager
def claim_under_way(dsn: str, agent: ScriptedAgent, want: int = 1) -> Iterator[psycopg.Connection]:
    """Give a transaction that has claimed tasks; it commits when the block ends."""
    with psycopg.connect(dsn) as connection:
        connection.execute(CLAIM, [agent.campaign, [agent.session], [want]])
        yield connection


def fold(postgres: Postgres, rest: str = "20 s") -> int:
    return int(value(postgres, "select taskq.fold(%s)", rest))


def unfolded(postgres: Postgres) -> int:
    return int(value(postgres, "select count(*) from taskq.delta"))


def test_folding_changes_no_count(campaign: Campaign, hire: Hire, postgres: Postgres) -> None:
    """It sums deltas up, and in time brings the sum into the counter, each once."""
    campaign.seed({"n": n} for n in range(10))
    agent = hire()
    for task in agent.claim(4)[:3]:
        agent.done(task)
    value(postgres, "select taskq.fold('0')")  # one exchange in a thousand folds by itself
    for n in range(2):
        campaign.seed([{"m": n}])
    before = campaign.status()
    assert (fold(postgres), before.waiting) == (2, 8)
    for again in range(2):
        assert (unfolded(postgres), campaign.status()) == (1, before)
        assert fold(postgres) == 0, again
    agent.claim(1)
    moved = campaign.status()
    assert fold(postgres) == 1
    assert (unfolded(postgres), campaign.status()) == (1, moved)
    assert fold(postgres, rest="0") == 0
    assert (unfolded(postgres), campaign.status()) == (0, moved)
    assert fold(postgres, rest="0") == 0
    assert campaign.status() == moved


def test_busy_campaign_leaves_few_versions_of_its_counter(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Under an old snapshot a reader goes through all of them."""
    campaign.seed({"n": n} for n in range(50))
    agent = hire()
    fold(postgres, rest="0")
    query = "select xmin::text from taskq.counter where campaign_id = %s"
    version = value(postgres, query, campaign.campaign_id)
    folded = 0
    for _ in range(40):
        agent.claim(1)
        folded += fold(postgres)
    assert 36 <= folded <= 40, "an exchange in a thousand folds by itself"
    assert value(postgres, query, campaign.campaign_id) == version
    postgres.execute("update taskq.delta set since = since - interval '20 s'")
    fold(postgres)
    assert value(postgres, query, campaign.campaign_id) != version
    assert (unfolded(postgres), campaign.status().working) == (0, 40)


def test_delta_that_commits_after_a_later_one_was_folded_is_not_missed(
    campaign: Campaign, hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """Transactions commit in another order than they began."""
    campaign.seed({"n": n} for n in range(20))
    agent = hire()
    with claim_under_way(dsn, agent, 3):
        folded = 0
        for _ in range(3):
            agent.claim(2)
            assert_counts_are_true(postgres)
            folded += fold(postgres)
            assert_counts_are_true(postgres)
        assert folded > 0
        assert campaign.status().working == 6
    assert_counts_are_true(postgres)
    assert campaign.status().working == 9
    assert fold(postgres) == 1
    assert_counts_are_true(postgres)


def test_reader_with_an_old_snapshot_sees_its_own_counts(
    campaign: Campaign, hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """Folds that happen meanwhile change nothing of what it sees."""
    campaign.seed({"n": n} for n in range(20))
    agent = hire()
    with claim_under_way(dsn, agent, 3) as late, snapshot(dsn) as old:
        agent.claim(2)
        fold(postgres)
        with snapshot(dsn) as younger:
            late.commit()
            agent.claim(2)
            fold(postgres)
            for reader in (old, younger, postgres):
                assert_counts_are_true(reader)
            seen = [
                value(reader, "select waiting from taskq.counts('/c', 0)")
                for reader in (old, younger, postgres)
            ]
    assert seen == [20, 18, 13]


def test_counts_include_what_is_below_and_nothing_that_sounds_alike(
    queue: Client, hire: Hire
) -> None:
    """Moves that are folded and moves that are not, at every level."""
    for path in ("/a", "/a/b", "/a/b/c", "/a/b-1", "/a-b", "/a.b/c", "/a0"):
        queue.create_campaign(path).seed({"n": n} for n in range(2))
    hire("/a/b/c").claim(1)
    hire("/a-b").claim(1)
    for _ in range(2):
        status = queue.campaign("/a").status()
        assert (status.children, status.waiting, status.working) == (2, 7, 1)
        children = queue.campaign("/a").child_statuses()
        assert [(child.path, child.children, child.total, child.working) for child in children] == [
            ("/a/b", 1, 4, 1),
            ("/a/b-1", 0, 2, 0),
        ]
        assert [(status.path, status.total) for status in queue.campaign("/").child_statuses()] == [
            ("/a", 8),
            ("/a-b", 2),
            ("/a.b", 2),
            ("/a0", 2),
        ]
        queue.database.value("keep", holder="00000000-0000-0000-0000-000000000000", term_s=9)


def test_state_is_that_of_the_campaign_or_of_one_above(queue: Client) -> None:
    """Cancelled wins over paused, however many levels lie between."""
    for path in ("/a/b/c/d", "/a/b/e", "/a/f", "/z"):
        queue.create_campaign(path)
    queue.campaign("/a/b").pause()
    queue.campaign("/a/b/c").cancel()
    states = {
        "/": "open",
        "/a": "open",
        "/a/b": "paused",
        "/a/b/c": "cancelled",
        "/a/b/c/d": "cancelled",
        "/a/b/e": "paused",
        "/a/f": "open",
        "/z": "open",
    }
    assert {status.path: status.state for status in queue.campaign("/").tree()} == states
    for path, state in states.items():
        assert queue.campaign(path).status().state == state
        for status in queue.campaign(path).child_statuses():
            assert status.state == states[status.path]
        for status in queue.campaign(path).tree():
            assert status.state == states[status.path]


def test_one_folds_at_a_time(campaign: Campaign, postgres: Postgres, dsn: str) -> None:
    """A second does not wait, and nothing is counted twice."""
    fold(postgres)
    campaign.seed([{"n": 1}])
    with psycopg.connect(dsn) as first:
        assert first.execute("select taskq.fold()").fetchone() == (1,)
        assert fold(postgres) == 0
        assert_counts_are_true(postgres)
    assert_counts_are_true(postgres)


def test_fold_that_is_rolled_back_has_not_happened(
    campaign: Campaign, postgres: Postgres, dsn: str
) -> None:
    """A keeper that is killed in the middle costs nothing."""
    fold(postgres)
    campaign.seed([{"n": 1}])
    with psycopg.connect(dsn) as killed:
        killed.execute("select taskq.fold()")
        killed.rollback()
    assert_counts_are_true(postgres)
    assert fold(postgres) == 1
    assert_counts_are_true(postgres)


def test_copy_of_the_database_in_a_younger_cluster_counts_right(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """There, the transactions that were folded last lie in the future."""
    campaign.seed({"n": n} for n in range(10))
    fold(postgres)
    agent = hire()
    agent.claim(1)
    postgres.execute("update taskq.fold set below = '9000000000000000000'")
    assert_counts_are_true(postgres)
    agent.claim(1)
    assert_counts_are_true(postgres)
    assert fold(postgres) > 0
    agent.claim(1)
    assert_counts_are_true(postgres)
    assert campaign.status().working == 3


@pytest.mark.thorough
def test_exchanges_fold_by_themselves_where_no_keeper_runs(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """About one in a thousand does, so that deltas do not pile up for ever."""
    campaign.seed([{"n": 1}])
    agent = hire()
    # The exchange draws one number; find a seed with which it is small enough.
    for attempt in range(20_000):
        drawn = value(postgres, "select random() from (select setseed(%s)) s", attempt / 20_000)
        if drawn < 1 / 1024:
            postgres.execute("select setseed(%s)", [attempt / 20_000])
            break
    postgres.execute(CLAIM, [agent.campaign, [agent.session], [1]])
    assert value(postgres, "select count(*) from taskq.delta where since is null") == 0
    assert_counts_are_true(postgres)


def write(
    campaign: Campaign, agent: ScriptedAgent, draw: random.Random, stop: threading.Event
) -> int:
    """Claim and report in all ways until the stop event; return how often."""
    moves = 0
    while not stop.is_set():
        tasks = agent.claim(draw.randint(1, 5))
        if not tasks:  # who commits late waits for others to move something
            campaign.seed({"n": -moves - n} for n in range(1, 500))
        for task in tasks:
            way = draw.randrange(3)
            if way == 0:
                agent.done(task)
            elif way == 1:
                agent.fail(task, retry=draw.random() < 0.5)
            else:
                agent.release(task, started=draw.random() < 0.5)
            moves += 1
    return moves


def commit_late(dsn: str, agent: ScriptedAgent, draw: random.Random, stop: threading.Event) -> int:
    """Claim again and again, and keep each transaction open until others have been folded."""
    moves = 0
    with (
        psycopg.connect(dsn) as slow,
        psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as look,
    ):
        while not stop.is_set():
            slow.execute(CLAIM, [agent.campaign, [agent.session], [3]])
            wait_for_fold(look, stop)
            if draw.random() < 0.7:
                slow.commit()
            else:
                slow.rollback()
            moves += 1
    return moves


def wait_for_fold(look: Postgres, stop: threading.Event) -> None:
    """Wait until somebody has folded, or until it has to stop."""
    query = "select below from taskq.fold"
    before = value(look, query)
    wait_until(lambda: stop.is_set() or value(look, query) != before)


def keep_folding(dsn: str, stop: threading.Event) -> int:
    """Fold until the stop event; return how many deltas."""
    folded = 0
    with psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as connection:
        while not stop.is_set():
            folded += fold(connection)
    return folded


@pytest.mark.thorough
@pytest.mark.parametrize("looks", [15, 60])
def test_counts_equal_a_recount_at_any_moment(
    queue: Client, hire: Hire, postgres: Postgres, dsn: str, looks: int
) -> None:
    """Writers, late committers, folders and readers all at once, each reader in one snapshot."""
    for path in ("/c", "/c/d"):
        queue.create_campaign(path).seed({"n": n} for n in range(1_000))
    stop = threading.Event()

    def read() -> None:
        for _ in range(looks):
            with snapshot(dsn) as reader:
                assert_counts_are_true(reader)

    with ThreadPoolExecutor(6) as pool:
        busy = [
            pool.submit(write, queue.campaign("/c"), hire("/c"), random.Random(1), stop),
            pool.submit(write, queue.campaign("/c/d"), hire("/c/d"), random.Random(2), stop),
            pool.submit(commit_late, dsn, hire("/c"), random.Random(3), stop),
            pool.submit(keep_folding, dsn, stop),
        ]
        try:
            for reading in [pool.submit(read), pool.submit(read)]:
                reading.result(timeout=60)
        finally:
            stop.set()
        assert all(future.result(timeout=60) > 0 for future in busy)
    assert_counts_are_true(postgres)
