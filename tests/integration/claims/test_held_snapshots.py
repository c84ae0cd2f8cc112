"""Claims that count towards limits while a snapshot is held: nothing that was written goes away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import psycopg
import pytest
from psycopg.rows import dict_row

from taskq import Client
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres

NOTES = ("limit_claim", "limit_total")
TURNS = 150


@pytest.fixture
def holder(dsn: str) -> Iterator[Postgres]:
    """Give a connection that holds a snapshot when it has read."""
    with psycopg.connect(dsn, row_factory=dict_row) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        yield connection


@dataclass
class Turns:
    """The turns of some agents, each of which reports its task and claims another."""

    postgres: Postgres
    campaign: int
    sessions: list[int]
    held: dict[int, str] = field(default_factory=dict)

    def take(self, session: int) -> None:
        """Take a turn."""
        row = self.postgres.execute(
            "select tasks from taskq.exchange("
            "%s, %s, array[%s]::bigint[], array[gen_random_uuid()], array[1])",
            [self.campaign, self.held.pop(session, None), session],
        ).fetchone()
        assert row is not None
        for lease, task, *_ in row["tasks"] or ():
            report = {"task": task, "lease": lease, "session": session, "outcome": "done"}
            self.held[session] = json.dumps([report])

    def cost(self) -> tuple[float, int, int]:
        """Let each take a turn; return rows and pages read of the notes, and all pages, at most."""
        rows, pages, all_pages = [0.0], [0], [0]
        for session in self.sessions:
            with watched(self.postgres) as seen:
                self.take(session)
            notes = seen.to(*NOTES).accesses
            rows.append(sum(access.rows for access in notes))
            pages.append(sum(access.pages for access in notes))
            all_pages.append(seen.buffers)
        return max(rows), max(pages), max(all_pages)


@pytest.mark.parametrize(
    "limits",
    [{"max_running_per_site": 4}, {"named_limits": ("oechem",)}],
    ids=["at a site", "of a named limit"],
)
@pytest.mark.parametrize("agents", [3, 6], ids=["with room", "full"])
def test_claim_of_a_limit_reads_no_more_under_a_held_snapshot(
    limits: dict[str, object],
    agents: int,
    queue: Client,
    hire: Hire,
    postgres: Postgres,
    holder: Postgres,
) -> None:
    """It meets what counts, not what counted once, however much was claimed since."""
    queue.limits.set("oechem", 4)
    campaign = servable(queue, "/c", (TURNS + 20) * agents, **limits)
    sessions = [hire("/c", site="here").session for _ in range(agents)]
    turns = Turns(postgres, campaign.campaign_id, sessions)
    holder.execute("select 1 from taskq.campaign")
    for _ in range(6):  # each function has its plans then
        turns.cost()
    rows, pages, all_pages = turns.cost()
    for number in range(TURNS * agents):
        turns.take(sessions[number % agents])
    rows_now, pages_now, all_pages_now = turns.cost()
    assert 0 < rows_now <= rows + 4
    assert pages_now <= 2 * pages
    assert all_pages_now <= 2 * all_pages
