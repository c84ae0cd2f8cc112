"""Connections whose transactions stay open, and what each of them has changed and locked."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import psycopg
from psycopg.rows import dict_row

from taskq.db.connections import Database
from taskq_agent.protocol import DONE
from tests.helpers.postgres import Postgres
from tests.helpers.waiting import wait_until
from tests.property.pooled_model import PooledModel
from tests.property.queue_tasks import Task

Seen = TypeVar("Seen")

#: A row or a key that transactions wait for each other about: ("task", 7).
Lock = Hashable


@dataclass
class TrackedConnection:
    """A connection, and what its transaction has done that nobody else sees yet.

    changed: tasks as they are once it commits. gone: sessions that it has ended, and whether they
    expired. at_end: what is to be done when it ends, committed or not.
    """

    postgres: Postgres
    is_open: bool = False
    changed: dict[int, Task] = field(default_factory=dict)
    gone: dict[int, bool] = field(default_factory=dict)
    locks: set[Lock] = field(default_factory=set)
    at_end: list[Callable[[bool], object]] = field(default_factory=list)

    def clear(self) -> None:
        """Forget the transaction, which has ended."""
        self.is_open = False
        for held in (self.changed, self.gone, self.locks, self.at_end):
            held.clear()


class TrackedConnections:
    """Some connections, and the model of what is committed.

    gone: sessions that have ended, and whether they expired.
    """

    def __init__(self, database: Database, count: int) -> None:
        self.model = PooledModel()
        self.gone: dict[int, bool] = {}
        self._connections = [
            TrackedConnection(psycopg.connect(database.dsn, row_factory=dict_row))
            for _ in range(count)
        ]
        self._look = psycopg.connect(database.dsn, autocommit=True)
        self._pool = ThreadPoolExecutor(1)
        for connection in self._connections:  # who waits where nothing is locked fails
            connection.postgres.execute("set lock_timeout = '10s'")
            connection.postgres.commit()

    def close(self) -> None:
        """Undo what is open, and close all."""
        for connection in self._connections:
            connection.postgres.close()
        self._look.close()
        self._pool.shutdown()

    def begin(self, number: int) -> TrackedConnection:
        """Return a connection without a transaction; if all are open one commits."""
        free = [
            connection for connection in self._connections if not connection.is_open
        ] or self._connections
        connection = free[number % len(free)]
        self.end(connection, commit=True)
        return connection

    def open(self) -> list[TrackedConnection]:
        """Return the connections with an open transaction."""
        return [connection for connection in self._connections if connection.is_open]

    def is_locked(self, lock: Lock) -> bool:
        """Return whether an open transaction holds a lock."""
        return any(lock in connection.locks for connection in self.open())

    def free(self) -> PooledModel:
        """Return a copy of the model with only those tasks that nobody has locked."""
        model = self.copy()
        model.tasks = {
            number: task
            for number, task in model.tasks.items()
            if not self.is_locked(("task", number))
        }
        return model

    def copy(self) -> PooledModel:
        """Return a copy of the model, with all tasks as they are committed."""
        return copy.deepcopy(self.model)

    def coming(self) -> PooledModel:
        """Return the model as it is when all that is open has committed."""
        model = self.copy()
        for connection in self.open():
            model.tasks.update(connection.changed)
        return model

    def run(
        self,
        connection: TrackedConnection,
        act: Callable[[Postgres], Seen],
        needs: Iterable[Lock],
        *,
        first: Lock = None,
        commit: bool,
    ) -> Seen:
        """Act; wait for those, and for those only, that hold what is needed.

        They end so that it gets on; commit: how. first: what is waited for before the act looks at
        any task; who holds that ends last, so that the act sees what all of them have left.
        """
        needs = set(needs)
        holders = [connection for connection in self.open() if connection.locks & needs]
        holders.sort(key=lambda connection: first in connection.locks)
        connection.is_open = True
        connection.locks.update(needs)
        if not holders:
            return act(connection.postgres)
        doing = self._pool.submit(act, connection.postgres)
        pid = connection.postgres.info.backend_pid
        wait_until(lambda: self._is_blocked(pid) or doing.done(), on_timeout=str)
        assert not doing.done(), f"did not wait for {holders}"
        for holder in holders:
            self.end(holder, commit=commit)
        seen = doing.result(timeout=30)
        done = [task.task for task in self.model.tasks.values() if task.status == DONE]
        connection.locks -= {("task", task) for task in done}  # now they have no row
        return seen

    def changed(self, connection: TrackedConnection, model: PooledModel) -> None:
        """Note what a connection has made of the tasks."""
        for number, task in model.tasks.items():
            if task != self.model.tasks[number]:
                connection.changed[number] = task
                connection.locks.add(("task", number))

    def end(self, connection: TrackedConnection, *, commit: bool) -> None:
        """End a connection's transaction, if there is one."""
        if not connection.is_open:
            return
        if commit:
            connection.postgres.commit()
            self.model.tasks.update(connection.changed)
            self.model.live -= connection.gone.keys()
            self.gone.update(connection.gone)
        else:
            connection.postgres.rollback()
        acts = list(connection.at_end)
        connection.clear()
        for act in acts:
            act(commit)

    def _is_blocked(self, pid: int) -> bool:
        row = self._look.execute("select cardinality(pg_blocking_pids(%s)) > 0", [pid]).fetchone()
        return row is not None and bool(row[0])
