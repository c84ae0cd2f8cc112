"""The audit's cost grows with the tasks, whatever the statistics know of a campaign."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import psycopg
import pytest
from psycopg.rows import dict_row

from taskq import Campaign, Client
from taskq.db.audit import CHECKS, OF_CAMPAIGNS
from taskq.db.catalogue import statement
from tests.fixtures.queues import Hire
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres

TASKS = 4_000
PAGE = 200
#: Rows that all steps of a check's plan together may meet for each task.
MOST_ROWS = 20


@pytest.fixture(params=["known", "another campaign", "empty"])
def statistics(
    request: pytest.FixtureRequest, queue: Client, postgres: Postgres
) -> Callable[[], None]:
    """Let statistics know of all, of another campaign alone, or of none; return what is to do last.

    The second is the ordinary case right after a bulk seed.
    """
    if request.param == "another campaign":
        queue.create_campaign("/a").seed({"n": n} for n in range(TASKS))
    if request.param != "known":
        postgres.execute("analyze")
        return lambda: None
    return lambda: postgres.execute("analyze") and None


def test_no_check_compares_each_task_with_the_campaign(
    statistics: Callable[[], None], campaign: Campaign, hire: Hire, dsn: str
) -> None:
    """Of tasks in spans, in bundles, in rows of their own, and done."""
    campaign.seed({"n": n} for n in range(TASKS))
    agent = hire()
    for number, task in enumerate(agent.claim(300)):
        if number < 250:
            agent.done(task) if number % 5 else agent.fail(task)
    statistics()
    met: Counter[str] = Counter()
    with psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as connection:
        connection.execute(statement("audit_plans").replace("true)", "false)").encode())
        ids = [row["task_id"] for row in connection.execute("select task_id from taskq.spec")]
        first = min(ids[-TASKS:])
        for after in (first - 1, first + TASKS // 2, first + TASKS - PAGE - 1):
            values = {"campaign": campaign.campaign_id, "after": after, "upto": after + PAGE}
            for check in CHECKS:
                with watched(connection) as seen:
                    found = connection.execute(statement(f"taskq.sql.audit/{check}"), values)
                    assert found.fetchall() == [], check
                met[check] = max(met[check], seen.rows_met)
        for check in OF_CAMPAIGNS:
            with watched(connection) as seen:
                connection.execute(statement(f"taskq.sql.audit/{check}"), values)
            met[check] = seen.rows_met * PAGE / TASKS
    assert met["halves"] > PAGE
    assert {check: rows for check, rows in met.items() if rows > MOST_ROWS * PAGE} == {}
