"""Access of tests to the database next to the queue: rows, and changes of time."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import DictRow

from tests.helpers.waiting import wait_until

Postgres = psycopg.Connection[DictRow]

#: A round of upkeep, by the same keeper each time.
KEEP = "select * from taskq.keep('00000000-0000-0000-0000-000000000000', 60)"

_MISCOUNTED = """
    select n.path, n.waiting, n.delayed, n.working, n.done, n.failed, n.cancelled, n.failures,
           n.losses, t.*, a.*
      from taskq.counts(%s, null) n
     cross join lateral (
           select count(*) filter (where status = 'waiting') as true_waiting,
                  count(*) filter (where status = 'delayed') as true_delayed,
                  count(*) filter (where status = 'working') as true_working,
                  count(*) filter (where status = 'done') as true_done,
                  count(*) filter (where status = 'failed') as true_failed,
                  count(*) filter (where status = 'cancelled') as true_cancelled
             from taskq.state where campaign_id = n.campaign_id) t
     cross join lateral (
           select count(*) filter (where outcome = 'failed') as true_failures,
                  count(*) filter (where outcome = 'lost'
                                      or outcome in ('done', 'withdrawn')
                                     and error_class not in ('hedged', 'not-begun')) as true_losses
             from taskq.attempt where campaign_id = n.campaign_id) a
     where (n.waiting, n.delayed, n.working, n.done, n.failed, n.cancelled, n.failures, n.losses)
        <> (t.true_waiting, t.true_delayed, t.true_working, t.true_done, t.true_failed,
            t.true_cancelled, a.true_failures, a.true_losses)
"""


def assert_counts_are_true(postgres: Postgres, path: str = "/") -> None:
    """Compare the counts of a campaign and all below it with a recount, both in one snapshot."""
    assert postgres.execute(_MISCOUNTED, [path]).fetchall() == []


def statuses(postgres: Postgres, path: str = "/c") -> dict[str, str]:
    """Return the status of each task of a campaign by its key."""
    rows = postgres.execute(
        "select s.key, t.status::text from taskq.state t join taskq.spec s using (task_id)"
        " join taskq.campaign c on c.campaign_id = t.campaign_id where c.path = %s",
        [path],
    )
    return {row["key"]: row["status"] for row in rows}


def task_row(postgres: Postgres, task: int) -> dict[str, Any]:
    """Return the row of a task."""
    row = postgres.execute("select * from taskq.state where task_id = %s", [task]).fetchone()
    assert row is not None
    return row


def silence(postgres: Postgres, session: int) -> None:
    """Make a session silent for longer than its lease, as the next round of upkeep sees it.

    Its lease becomes the shortest there is, because silence before the start of the server does not
    count.
    """
    postgres.execute(
        "update taskq.session set lease_s = 1, heartbeat_at = clock_timestamp() - interval '1 h'"
        " where session_id = %s",
        [session],
    )
    wait_until(lambda: server_age_s(postgres) > 1)


def expire(postgres: Postgres) -> int:
    """Expire silent sessions; return how many attempts were lost."""
    return int(value(postgres, "select taskq.expire()"))


def keep(postgres: Postgres, rounds: int = 1) -> list[str]:
    """Do rounds of upkeep; return the campaigns that paused themselves."""
    paused: list[str] = []
    for _ in range(rounds):
        row = postgres.execute(KEEP).fetchone()
        assert row is not None
        assert row["acting"]
        paused += row["paused"] or []
    return paused


def is_lost(postgres: Postgres, session: int) -> bool:
    """Let the lease of a session run out; tell whether it has been given up, by whichever keeper.

    A heartbeat of it may still be on its way: ask until it is so.
    """
    silence(postgres, session)
    expire(postgres)
    ended = "select ended_at is not null from taskq.session where session_id = %s"
    return bool(value(postgres, ended, session))


def promote(postgres: Postgres) -> int:
    """Make all delayed tasks due, and promote them; return how many."""
    postgres.execute("update taskq.task set due_at = clock_timestamp() where status = 'delayed'")
    return int(value(postgres, "select taskq.promote_delayed()"))


def value(postgres: Postgres, query: str, *values: object) -> Any:
    """Return the single value that a query returns."""
    row = postgres.execute(query.encode(), values).fetchone()
    assert row is not None
    return next(iter(row.values()))


def server_age_s(postgres: Postgres) -> float:
    """Return for how long the server has run: silence before that does not count."""
    return float(
        value(
            postgres,
            "select extract(epoch from clock_timestamp() - pg_postmaster_start_time())",
        )
    )


def last_beats(postgres: Postgres) -> dict[int, Any]:
    """Return when each session was heard of last."""
    rows = postgres.execute("select session_id, heartbeat_at from taskq.session")
    return {row["session_id"]: row["heartbeat_at"] for row in rows}


def blocked(dsn: str) -> int:
    """Return how many connections to this database wait for a lock."""
    with psycopg.connect(dsn, autocommit=True) as look:
        return look.execute(
            "select from pg_stat_activity"
            " where datname = current_database() and wait_event_type = 'Lock'"
        ).rowcount
