"""What campaigns used, as tests see it: summed now, and added up from attempts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.helpers.postgres import Postgres
from tests.helpers.waiting import wait_until


def sum_up(postgres: Postgres) -> None:
    """Sum all attempts that have ended; nobody may write meanwhile.

    It waits for what tests of other workers write, which the server numbers alike.
    """
    row = postgres.execute(
        "update taskq.summed set next_xid = pg_current_xact_id(),"
        "       next_at = statement_timestamp() + interval '1 s'"
        " returning statement_timestamp() as at"
    ).fetchone()
    assert row is not None
    wait_until(lambda: summed_until(postgres) >= row["at"], timeout_s=120)


def summed_until(postgres: Postgres) -> datetime:
    """Sum what can be summed; return until when all is."""
    row = postgres.execute("select taskq.sum_ends(60) as until").fetchone()
    assert row is not None
    until: datetime = row["until"]
    return until


def used_by_attempts(postgres: Postgres, path: str = "/") -> dict[str, tuple[int, int]]:
    """Return how many attempts ended in each way, and the milliseconds that they ran."""
    rows = postgres.execute(
        "select taskq.end_of(a.outcome) as outcome, count(*) as attempts,"
        "       sum(taskq.used_ms(a.phases, a.claimed_at, a.ended_at))::bigint as run_ms"
        "  from taskq.attempt a join taskq.campaign c using (campaign_id)"
        " where taskq.at_or_below(c.path, %s) group by 1",
        [path],
    )
    return {row["outcome"]: (row["attempts"], row["run_ms"]) for row in rows}


def used(postgres: Postgres, path: str = "/") -> dict[str, tuple[int, int]]:
    """Return the same from the sums."""
    rows: Any = postgres.execute(
        "select u.outcome, sum(u.attempts)::bigint as attempts, sum(u.run_ms)::bigint as run_ms"
        "  from taskq.usage u where taskq.at_or_below(u.path, %s)"
        " group by 1 having sum(u.attempts) <> 0 or sum(u.run_ms) <> 0",
        [path],
    )
    return {row["outcome"]: (row["attempts"], row["run_ms"]) for row in rows}
