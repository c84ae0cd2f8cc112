"""What many viewers cost: no more statements than one."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial
from typing import Any

import pytest

from taskq import Client
from taskq.db.connections import Database, Row
from taskq.diagnosis.campaign_tree import Tree
from taskq.diagnosis.shared_readings import Readings
from taskq.diagnosis.ticker import Ticker
from taskq.model.errors import Unavailable
from tests.helpers.postgres import Postgres


class Counting(Database):
    """A database that notes which statements are run."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self.ran: list[str] = []
        self.away = False

    def rows(self, name: str, /, **values: object) -> list[Row]:
        """Run a statement."""
        self.ran.append(name)
        if self.away:
            raise Unavailable("it is away")
        return super().rows(name, **values)


@pytest.fixture
def database(dsn: str) -> Any:
    """Give the test's database."""
    opened = Counting(dsn).open()
    yield opened
    opened.close()


async def look(ticker: Ticker, count: int) -> list[Tree | None]:
    """Follow for so many trees."""
    with ticker.followed():
        return [await ticker.next_tree(60) for _ in range(count)]


@pytest.mark.thorough
async def test_viewers_share_a_statement_a_period(database: Counting) -> None:
    """Fifty see the same trees, of one statement each."""
    Client(database).create_campaign("/a")
    database.ran.clear()

    ticker = Ticker(database, period_s=0.2)
    found = await asyncio.gather(*(look(ticker, 6) for _ in range(50)))
    await ticker.close()
    for trees in found:
        assert [tree and set(tree.nodes) for tree in trees] == [{"/", "/a"}] * 6
    # Far fewer than the 300 that were shown: all see the same.
    assert 6 <= len(database.ran) < 50


async def test_page_of_many_viewers_reads_the_tree_once(database: Counting) -> None:
    """The first waits for all of it, the others for the first."""
    Client(database).create_campaign("/a")
    database.ran.clear()
    ticker = Ticker(database, period_s=100.0)
    trees = await asyncio.gather(*(ticker.tree() for _ in range(50)))
    assert all(tree is trees[0] for tree in trees)
    assert sorted(database.ran) == [
        *("counts", "paces", "scopes", "sharing_campaigns", "slot_kinds", "standstill"),
    ]


async def test_view_reports_a_database_that_is_away_and_recovers(
    database: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who follows goes on following, however long a statement took that failed."""
    monkeypatch.setattr("taskq.diagnosis.ticker.SHARE", 1)
    Client(database).create_campaign("/a")
    ticker = Ticker(database, period_s=0.05)
    with ticker.followed():
        while await ticker.next_tree(60) is None:
            pass
        database.away = True
        while await ticker.next_tree(60) is not None:
            pass
        # From here on no statement succeeds, after which the ticker would rest for ever.
        monkeypatch.setattr("taskq.diagnosis.ticker.SHARE", 1_000_000_000)
        failed = len(database.ran) + 3
        while len(database.ran) < failed:  # noqa: ASYNC110  # a thread runs them
            await asyncio.sleep(0.01)
        monkeypatch.setattr("taskq.diagnosis.ticker.SHARE", 1)
        database.away = False
        while await ticker.next_tree(60) is None:
            pass
    await ticker.close()


async def test_counts_of_the_tree_are_those_of_status(
    database: Counting, postgres: Postgres
) -> None:
    """With all that is below, and agents above and below."""
    queue = Client(database)
    for number, path in enumerate(("/a", "/a/b", "/a/b/c", "/a-b", "/d/e")):
        queue.create_campaign(path).seed({"n": n} for n in range(10 + number))
    postgres.execute(
        "insert into taskq.session (key, campaign_id, opened_at, heartbeat_at, lease_s, slots, pid,"
        "  agent, host, site, release)"
        " select gen_random_uuid(), c.campaign_id, now(), now(), 60, 1, 1, 'a', 'h', 's', ''"
        "   from taskq.campaign c cross join generate_series(1, c.campaign_id)"
    )
    tree = await Ticker(database).tree()
    for path, node in tree.nodes.items():
        status = queue.campaign(path).status()
        assert (node.status.waiting, node.status.total) == (status.waiting, status.total)
        assert node.agents == len(queue.agents(path)), path


async def test_readings_are_shared_kept_and_bounded_in_number() -> None:
    """Those who ask meanwhile wait for one reading; two are made at a time."""
    now = 0.0
    made: list[str] = []
    at_a_time, most = 0, 0
    lock = threading.Lock()

    def read(key: str) -> str:
        nonlocal at_a_time, most
        with lock:
            made.append(key)
            at_a_time += 1
            most = max(most, at_a_time)
        time.sleep(0.02)
        with lock:
            at_a_time -= 1
        return key

    readings = Readings(lambda: now)
    keys = [f"{n % 10}" for n in range(100)]
    got = await asyncio.gather(*(readings.get(key, 5, partial(read, key)) for key in keys))
    assert got == keys
    assert sorted(made) == sorted(set(keys))
    now = 4.0
    await readings.get("1", 5, lambda: read("1"))
    assert len(made) == 10
    now = 6.0
    await readings.get("1", 5, lambda: read("1"))
    assert len(made) == 11
    assert most == 2


async def test_reading_that_fails_is_made_again() -> None:
    """The error goes to all that waited for it, and to nobody later."""

    def fail() -> str:
        raise Unavailable("it is away")

    readings = Readings()
    failed = await asyncio.gather(
        *(readings.get("x", 60, fail) for _ in range(3)), return_exceptions=True
    )
    assert [type(failure) for failure in failed] == [Unavailable] * 3
    assert await readings.get("x", 60, lambda: "well") == "well"
