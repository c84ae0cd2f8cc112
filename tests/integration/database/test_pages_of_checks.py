"""`taskq db check` is no heavier than `taskq status`: the pages that both read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from taskq import CampaignSpec, Client
from taskq.db.checks.every import CHECKS
from taskq.db.rows import Row
from taskq.db.statements import Statements
from taskq.diagnosis.campaign_tree import read_tree
from taskq.diagnosis.explaining import explained
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import TRUE
from tests.helpers.plans import watched


class Counting(Statements):
    """Statements that count the pages they read."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        super().__init__(connection)  # type: ignore[arg-type]  # any connection does here
        self.opened = connection
        self.pages = 0

    def rows(self, name: str, /, **values: object) -> list[Row]:
        """Return the rows of a statement."""
        with watched(self.opened) as seen:
            found = super().rows(name, **values)
        self.pages += seen.buffers
        return found


@pytest.mark.thorough
def test_checks_read_few_pages_however_much_there_is(queue: Client) -> None:
    """All together, next to 300 tables of others, in a queue of 2,000 campaigns."""
    for number in range(2_000):
        queue.create_campaign(f"/c{number}")
    with psycopg.connect(queue.database.dsn, autocommit=True, row_factory=dict_row) as other:
        for start in range(0, 300, 100):
            other.execute(
                "do $$ begin for n in " + f"{start} .. {start + 99} loop execute format("
                "'create table public.t%s (id bigint primary key, x text)', n); end loop; end $$"
            )
        other.execute("vacuum analyze")
        for most in (4_000, 1_000):  # a new connection reads catalogs for whatever it does first
            assert pages_of(other, check_all) <= most


def pages_of(connection: psycopg.Connection[Any], ask: Callable[[Counting], object]) -> int:
    """Return how many pages it takes to ask something."""
    counting = Counting(connection)
    ask(counting)
    return counting.pages


def check_all(statements: Counting) -> None:
    """Read what all checks read, each once, in a transaction of its own."""
    for read in {check.read: None for check in CHECKS}:
        with statements.opened.transaction():
            read(statements)


def read_status(statements: Counting) -> None:
    """Read what `taskq status` reads of the whole queue, or less."""
    read_tree(statements, "/")
    explained(statements, "/")
    statements.rows("agent_counts", path="/")


def test_checks_read_no_more_pages_than_status(queue: Client, hire: Hire) -> None:
    """As commands, each on a connection of its own; in a queue where something ran, later too."""
    campaign = queue.create_campaign(CampaignSpec("/c", handler=TRUE))
    campaign.seed([{"n": n} for n in range(9)])
    pages: list[list[int]] = []
    for used in (False, True):
        if used:
            agent = hire("/c")
            failed, *others = agent.claim_singly(3)
            agent.fail(failed)
            for task in others:
                agent.done(task)
        for ask in (check_all, read_status):
            with psycopg.connect(
                queue.database.dsn, autocommit=True, row_factory=dict_row
            ) as connection:
                pages.append([pages_of(connection, ask) for _ in range(3)])
    new_check, new_status, check, status = pages
    assert new_check[0] < new_status[0], pages
    assert check[0] < status[0], pages
    assert check[2] < status[2], pages
