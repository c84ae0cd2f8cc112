"""Thousands of campaigns that have ended cost agents that look for work next to nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from taskq import Client
from taskq.db.catalogue import statement
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.plans import ExecutedPlans, watched
from tests.helpers.postgres import Postgres

ENDED = 1_200
FEW_ROWS = 30

Serve = Callable[[str], "tuple[list[str], ExecutedPlans]"]


@pytest.fixture
def ended(queue: Client, postgres: Postgres) -> str:
    """Give the path of 1,200 campaigns without unfinished tasks, next to /a with one."""
    queue.create_campaign("/p")
    servable(queue, "/a").seed([{"n": 1}])
    made = "select taskq.create_campaign('/p/c' || n, '{}') from generate_series(1, %s) as n"
    postgres.execute(made, (ENDED,))
    postgres.execute("select taskq.fold()")
    postgres.execute("vacuum analyze")
    return "/p"


@pytest.fixture
def serve(postgres: Postgres) -> Serve:
    """Return which campaigns at and below a path are served, and what the server did for that."""

    def serving(path: str) -> tuple[list[str], ExecutedPlans]:
        words = {"path": path, "lifetime_s": None, "offers": [], "most": 10}
        with watched(postgres) as seen:
            rows = postgres.execute(statement("servable"), words).fetchall()
        ids = [row["campaign_id"] for row in rows]
        named = "select path from taskq.campaign where campaign_id = any (%s) order by path"
        return [row["path"] for row in postgres.execute(named, (ids,)).fetchall()], seen

    return serving


@pytest.mark.usefixtures("ended")
def test_agent_of_the_whole_queue_reads_only_unfinished_campaigns(serve: Serve) -> None:
    """Those that have ended are known by their counters."""
    found, seen = serve("/")
    assert found == ["/a"]
    assert sum(access.rows for access in seen.to("campaign").accesses) <= FEW_ROWS


@pytest.mark.thorough
def test_campaign_that_wakes_is_served_at_once(
    ended: str, serve: Serve, queue: Client, hire: Hire
) -> None:
    """Before any counter has it, at and below a path with many campaigns, and nowhere else."""
    assert serve(ended)[0] == []
    woken = servable(queue, f"{ended}/c7/woken")
    woken.seed([{"n": 1}])
    for path in ("/", ended, f"{ended}/c7"):
        assert serve(path)[0] == [
            name for name in ("/a", woken.path) if path == "/" or name != "/a"
        ]
    agent = hire(woken.path)
    agent.done(*agent.claim(1))
    assert serve("/")[0] == ["/a"]
    assert serve(ended)[0] == []
