"""Two transactions that meet: one has done its part and is still open when the other comes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import psycopg
from psycopg.rows import dict_row

from tests.helpers.postgres import Postgres
from tests.helpers.scripted_agent import Claimed, ScriptedAgent, report_of
from tests.helpers.waiting import wait_until

First = TypeVar("First")
Second = TypeVar("Second")


@dataclass(frozen=True, slots=True)
class Met(Generic[First, Second]):
    """What the two returned, and whether the second had to wait for the end of the first."""

    first: First
    second: Second
    waited: bool


def meet(
    dsn: str,
    first: Callable[[Postgres], First],
    second: Callable[[Postgres], Second],
    *,
    undo: bool = False,
    meanwhile: Callable[[Postgres], object] = lambda _: None,
) -> Met[First, Second]:
    """Let `second` run while the transaction of `first` is open, which then commits or is undone.

    It ends when the second has returned, or somebody waits for it; each on a connection of its own.
    meanwhile: what the first does then, before it ends.
    """
    with (
        psycopg.connect(dsn, row_factory=dict_row) as early,
        psycopg.connect(dsn, row_factory=dict_row, autocommit=True) as late,
        psycopg.connect(dsn, autocommit=True) as look,
        ThreadPoolExecutor(1) as pool,
    ):
        began = first(early)
        running = pool.submit(second, late)
        blocked = "select from pg_stat_activity where %s = any (pg_blocking_pids(pid))"
        pid = early.info.backend_pid
        wait_until(lambda: running.done() or look.execute(blocked, [pid]).rowcount)
        waited = not running.done()
        meanwhile(early)
        if undo:
            early.rollback()
        else:
            early.commit()
        return Met(began, running.result(timeout=60), waited)


def in_order(dsn: str, tasks: Sequence[Claimed], act: Callable[[Postgres], Second]) -> Second:
    """Assert that an act that waits for the first of two tasks has not locked the second yet.

    Return what it returned in the end.
    """
    first, second = tasks

    def look_behind(early: Postgres) -> None:
        early.execute("select from taskq.task where task_id = %s for update nowait", [second.task])

    met = meet(dsn, locking(first.task), act, meanwhile=look_behind)
    assert met.waited
    return met.second


def reporting(
    *tasks: Claimed, outcome: str = "done", **details: Any
) -> Callable[[Postgres], list[str]]:
    """Return an act that reports attempts in one exchange, and returns the verdicts."""
    return telling(tasks[0].campaign, [report_of(task, outcome, **details) for task in tasks])


def telling(campaign: int, reports: list[dict[str, Any]]) -> Callable[[Postgres], list[str]]:
    """Return an act that makes these reports in one exchange, and returns the verdicts."""

    def report(connection: Postgres) -> list[str]:
        row = connection.execute(
            "select acks from taskq.exchange(%s, %s, null, null, null)",
            [campaign, json.dumps(reports)],
        ).fetchone()
        assert row is not None
        return list(row["acks"])

    return report


def claiming(
    agent: ScriptedAgent, want: int = 1, lease: str | None = None
) -> Callable[[Postgres], list[Claimed]]:
    """Return an act that claims for an agent, and returns the tasks in the order of their ids."""
    drawn = lease or agent.draw_lease()

    def claim(connection: Postgres) -> list[Claimed]:
        row = connection.execute(
            "select tasks from taskq.exchange(%s, null, %s, %s::uuid[], %s)",
            [agent.campaign, [agent.session], [drawn], [want]],
        ).fetchone()
        assert row is not None
        return agent.claimed(row)

    return claim


def calling(query: str, *values: object) -> Callable[[Postgres], Any]:
    """Return an act that returns the first row of a query, as a tuple, or its one value."""

    def call(connection: Postgres) -> Any:
        row = connection.execute(query.encode(), values).fetchone()
        assert row is not None
        found = tuple(row.values())
        return found[0] if len(found) == 1 else found

    return call


def in_turn(*acts: Callable[[Postgres], Any]) -> Callable[[Postgres], list[Any]]:
    """Return an act that does several in one transaction."""
    return lambda connection: [act(connection) for act in acts]


EXPIRE = calling("select taskq.expire()")


def cancelling(campaign: int) -> Callable[[Postgres], int]:
    """Return an act that cancels all of a campaign's tasks, and returns how many that were."""
    return calling("select moved from taskq.cancel(%s, null, 0, 1000)", campaign)


def locking(task: int) -> Callable[[Postgres], Any]:
    """Return an act that locks the row of a task and does nothing with it."""
    return calling("select task_id from taskq.task where task_id = %s for update", task)
