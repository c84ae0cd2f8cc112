"""Looks into PostgreSQL: who holds leases, whose transactions are open, and how all ended."""

from __future__ import annotations

import time
from typing import Any

import psycopg
from psycopg.rows import DictRow, dict_row

from tests.chaos.history import Attempt, Task
from tests.chaos.witness import execution_in

_LEASES = """
    select count(*) as leases
      from taskq.state t
      join taskq.session s on s.session_id = t.session_id
     where t.status = 'working' and s.agent like %s
"""
_POOL = "select count(*) as leases from taskq.state where status = 'working' and session_id = 0"
_ALL = "select count(*) as leases from taskq.state where status = 'working'"
_OPEN = """
    select pid, application_name, state, left(query, 60) as query,
           extract(epoch from clock_timestamp() - xact_start)::float as age_s,
           case when %s then pg_terminate_backend(pid) end as struck
      from pg_stat_activity
     where datname = current_database()
       and backend_type = 'client backend'
       and xact_start is not null
       and application_name = any (%s)
     limit 1
"""
_UNAWARE = """
    select s.agent
      from taskq.session s
      join taskq.ban b on b.name = case b.kind when 'host' then s.host else s.site end
     where s.ended_at is null and not s.drain
       and (b.until > statement_timestamp()) is not false
"""
_TASKS = """
    select t.task_id, s.key, t.status::text, t.attempt
      from taskq.state t
      join taskq.spec s on (s.campaign_id, s.task_id) = (t.campaign_id, t.task_id)
     where t.campaign_id = (select campaign_id from taskq.campaign where path = %s)
     order by t.task_id
"""
_ATTEMPTS = """
    select task_id, attempt, lease_id::text, outcome::text, result, error,
           outcome in ('done', 'withdrawn') and error_class is not null as salvaged,
           extract(epoch from claimed_at)::float as claimed_s,
           extract(epoch from ended_at)::float as ended_s
      from taskq.attempt
     order by task_id, attempt
"""

Seen = dict[str, Any]


class Eyes:
    """A connection to the database past all ways, which is opened again when it is lost."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: psycopg.Connection[DictRow] | None = None

    def leases(self, agent: str) -> Seen | None:
        """Return how many leases the sessions of an agent hold, None if none.

        agent: its name, in which % stands for anything.
        """
        return self._some(_LEASES, agent)

    def pool(self) -> Seen | None:
        """Return how many leases the pool holds, None if none."""
        return self._some(_POOL)

    def all_leases(self) -> Seen | None:
        """Return how many leases there are, None if none."""
        return self._some(_ALL)

    def transaction(self, *names: str) -> Seen | None:
        """Return an open transaction of one of these clients, None if there is none."""
        rows = self._rows(_OPEN, False, list(names))
        return rows[0] if rows else None

    def terminate(self, *names: str) -> Seen | None:
        """End a backend that has a transaction of one of these open; None if there is none."""
        rows = self._rows(_OPEN, True, list(names))
        return rows[0] if rows else None

    def unaware(self) -> list[str]:
        """Return agents that are at work where it is banned, and do not drain."""
        return [row["agent"] for row in self._rows(_UNAWARE)]

    def starts(self, limit: str) -> int:
        """Return how many starts count towards a limit."""
        (row,) = self._rows("select taskq.starts_in_limit(0, %s) as starts", limit)
        return int(row["starts"])

    def end(self, path: str) -> tuple[list[Task], list[Attempt]]:
        """Return all tasks of a campaign and all attempts as they are at the end."""
        tasks = [Task(*row.values()) for row in self._rows(_TASKS, path)]
        rows = self._rows(_ATTEMPTS)
        zero = time.monotonic() - time.time()  # the server is on this machine
        attempts = [
            Attempt(
                row["task_id"],
                row["attempt"],
                row["lease_id"],
                row["outcome"],
                zero + row["claimed_s"],
                zero + row["ended_s"],
                execution_in(row["result"], row["error"]),
                row["salvaged"],
            )
            for row in rows
        ]
        return tasks, attempts

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    def _some(self, query: str, *values: object) -> Seen | None:
        (row,) = self._rows(query, *values)
        return row if row["leases"] else None

    def _rows(self, query: str, *values: object) -> list[DictRow]:
        try:
            return self._connected().execute(query.encode(), values).fetchall()
        except psycopg.OperationalError:  # the server has been restarted since
            self.close()
            return self._connected().execute(query.encode(), values).fetchall()

    def _connected(self) -> psycopg.Connection[DictRow]:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self._dsn, autocommit=True, row_factory=dict_row)
        return self._connection
