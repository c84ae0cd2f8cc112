"""Connections to PostgreSQL, from a pool or dedicated, for threads and for asyncio.

Statements are called by their name in `catalogue`. Errors are those of `address.translated`.
"""

from __future__ import annotations

import atexit
import os
import secrets
import select
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, TypeVar

import psycopg
import psycopg_pool
from typing_extensions import Self

from taskq.db import sessions
from taskq.db.access import Queries, check_process
from taskq.db.address import DatabaseAddress
from taskq.db.async_connection import STANDBY, TIMELINE_FRESH_S, AsyncConnection
from taskq.db.catalogue import wakes
from taskq.db.dsn import display_name
from taskq.db.rows import Row
from taskq.db.silence import WatchedConnection, check
from taskq.db.statements import JsonText, Statements
from taskq.db.timeouts import POOL_TIMEOUT_S
from taskq.db.translation import translated
from taskq.db.upgrades import PREPARED_BEFORE
from taskq.model.errors import TaskqError, Unavailable

__all__ = [
    "AsyncConnection",
    "Connection",
    "Database",
    "JsonText",
    "Row",
    "Statements",
]

#: Seconds after its last use in which a pooled connection is not checked by a round trip.
USED_LATELY_S: Final = 1.0
#: Seconds without announcements of tasks after one that no gateway listened for.
NOBODY_S: Final = 0.5

_OPEN: Final[weakref.WeakSet[Database]] = weakref.WeakSet()

T = TypeVar("T")


def _check(connection: WatchedConnection) -> None:
    """Raise an error if a pooled connection is broken.

    A server that ends closes its connections, so one that was used lately costs no round trip.
    """
    if time.monotonic() < connection.used_at + USED_LATELY_S:
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        if not poll.poll(0):
            check(connection)
            return
    psycopg_pool.ConnectionPool.check_connection(connection)


def _explain(connection: WatchedConnection, error: psycopg.Error, address: DatabaseAddress) -> None:
    """Raise `SchemaNewer` if an upgrade caused an error, `Unavailable` if repeating helps.

    The connection is in no transaction.
    """
    if isinstance(error, PREPARED_BEFORE):
        connection.close()
        raise Unavailable(f"{address.server} was upgraded just now; repeat the call") from error
    if address.installed.explains(error):
        with suppress(psycopg.Error):
            address.installed.check(Statements(connection).row("installation"), address.server)


def _begin(connection: WatchedConnection, server: str) -> None:
    """Set and check what taskq needs of a connection; see `sessions`."""
    (row,) = Statements(connection).rows("begin_session", **sessions.wanted(connection))
    sessions.begin(connection, row, server)


class Connection:
    """A dedicated connection, for a caller that uses it all the time. Not thread-safe.

    It opens when first needed, and again after it broke. timeline: the server's, which changes
    when another server takes over; up to date while `connected`.
    """

    def __init__(self, address: DatabaseAddress) -> None:
        self._address = address
        self._process = os.getpid()
        self._connection: WatchedConnection | None = None
        self._statements: Statements | None = None
        self.timeline = 0
        self._stale_at = 0.0

    @contextmanager
    def connected(self) -> Iterator[Statements]:
        """Yield the open connection; translate errors, and drop the connection if it broke."""
        check_process(self._process)
        with translated(self._address.server):
            if self._connection is None or self._statements is None:
                self._connection = self._address.connect()
                self._statements = Statements(self._connection)
                self._stale_at = 0.0
            connection = self._connection
            try:
                if time.monotonic() >= self._stale_at:
                    _begin(connection, self._address.server)
                    self.timeline = int(self._statements.value("timeline"))
                    self._address.takeovers.note(self.timeline)
                    self._stale_at = time.monotonic() + TIMELINE_FRESH_S
                yield self._statements
            except STANDBY:
                connection.close()
                raise
            except psycopg.Error as error:
                _explain(connection, error, self._address)
                raise
            finally:
                if connection.closed or connection.broken:
                    self._connection = self._statements = None

    def check_installed(self) -> None:
        """Raise `SchemaNewer` if the database was upgraded since this process began to use it."""
        with self.connected() as statements:
            self._address.installed.check(statements.row("installation"), self._address.server)

    def close(self) -> None:
        """Close the connection; in a forked child, leave it to the parent."""
        if self._connection is not None and os.getpid() == self._process:
            self._connection.close()
        self._connection = self._statements = None


class Database(Queries):
    """A database, accessed through a pool of connections. Thread-safe."""

    def __init__(self, dsn: str, *, server: str | None = None, most: int = 8) -> None:
        """Set the pool up; it opens no connection yet.

        most: connections of the pool. server: its name in messages, by default
        `address.display_name`; never the DSN, which may contain a password. Statements are prepared
        unless a pooler is in between; `TASKQ_PREPARE` overrides that.
        """
        self.dsn: Final = dsn
        self.server: Final = server if server is not None else display_name(dsn)
        self._address = DatabaseAddress.of(dsn, self.server)
        self._pool = psycopg_pool.ConnectionPool(
            self._address.conninfo,
            connection_class=WatchedConnection,
            kwargs=self._address.options,
            min_size=0,
            max_size=most,
            timeout=POOL_TIMEOUT_S,
            reconnect_timeout=POOL_TIMEOUT_S,
            configure=self._begin,
            check=_check,
            open=False,
        )
        self._process = os.getpid()
        self._silent_until = 0.0

    def open(self) -> Self:
        """Connect once, so that a wrong address fails at once.

        Raise `LoginRefused` if the server refuses the login, `Unavailable` if none answers,
        `ServerUnsuitable` if it has a setting that taskq cannot change.
        """
        with translated(self.server):
            with self._address.connect() as connection:
                self._begin(connection)
            self._pool.open()
        _OPEN.add(self)
        return self

    def _begin(self, connection: WatchedConnection) -> None:
        _begin(connection, self.server)

    def close(self) -> None:
        """Close all connections; in a forked child, leave them to the parent."""
        if os.getpid() == self._process:
            self._pool.close()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed; a closed one answers nothing."""
        return self._pool.closed

    @property
    def takeovers(self) -> int:
        """How often the dedicated connections have met another server than before."""
        return self._address.takeovers.count

    def anonymous(self, *, most: int = 8) -> Database:
        """Return the same database, opened, under a name that anybody may see."""
        same = Database(self.dsn, server="the database", most=most).open()
        same.note_installed()
        return same

    def note_installed(self) -> None:
        """Note what is installed, so that a later upgrade is recognised; see `address`."""
        self._address.installed.noted = self.row("installation")

    @contextmanager
    def _lent(self) -> Iterator[WatchedConnection]:
        check_process(self._process)
        with translated(self.server), self._pool.connection() as connection:
            try:
                yield connection
            except STANDBY:
                connection.close()
                raise
            except psycopg.Error as error:
                _explain(connection, error, self._address)
                raise
            finally:
                connection.used_at = time.monotonic()

    @contextmanager
    def connection(self) -> Iterator[Statements]:
        """Yield a pooled connection on which each statement commits alone."""
        with self._lent() as connection:
            yield Statements(connection)

    @contextmanager
    def transaction(self) -> Iterator[Statements]:
        """Yield a pooled connection in a transaction: the block commits entirely or not at all."""
        with self._lent() as connection, connection.transaction():
            yield Statements(connection)

    def in_snapshot(
        self, read: Callable[[Statements], T], *, lock_wait_s: float | None = None
    ) -> T:
        """Return what a function reads in one snapshot, in a transaction that cannot write.

        lock_wait_s: how long a statement waits for somebody's lock before it raises `Unavailable`.
        """
        with self.transaction() as snapshot:
            snapshot.execute("audit_snapshot")
            if lock_wait_s is not None:
                snapshot.execute("limit_lock_waits", lock_timeout=f"{round(lock_wait_s * 1000)}ms")
            return read(snapshot)

    def execute(self, name: str, /, **values: object) -> None:
        """Run a statement that returns nothing."""
        with self.connection() as statements:
            statements.execute(name, **values)

    @contextmanager
    def scratch(self) -> Iterator[Database]:
        """Create a database on the same server, yield it connected, and drop it afterwards."""
        name = f"taskq_scratch_{secrets.token_hex(4)}"
        with self.connection() as statements:
            statements.define("create_database", database=name)
        dsn = psycopg.conninfo.make_conninfo(self.dsn, dbname=name)
        scratch = Database(dsn, server=f"the database {name}")
        try:
            yield scratch.open()
        finally:
            scratch.close()
            with self.connection() as statements:
                statements.define("drop_database", database=name)

    def dedicated_connection(self) -> Connection:
        """Return a connection outside the pool, which opens at its first use."""
        return Connection(self._address)

    def dedicated_async_connection(
        self, heard: Callable[[], None] | None = None
    ) -> AsyncConnection:
        """Return a connection for asyncio outside the pool, which opens at its first use."""
        return AsyncConnection(self._address, heard)

    def rows(self, name: str, /, **values: object) -> list[Row]:
        """Return all rows of a statement."""
        with self.connection() as statements:
            rows = statements.rows(name, **values)
        if wakes(name):
            self.announce_tasks()
        return rows

    def announce_tasks(self) -> None:
        """Wake gateways whose agents wait: tasks have become claimable; rests if none waits."""
        if time.monotonic() >= self._silent_until:
            self._silent_until = 0.0
            # Gateways look by themselves within a second.
            with suppress(TaskqError, psycopg.Error), self.connection() as statements:
                if not statements.value("announce_tasks"):
                    self._silent_until = time.monotonic() + NOBODY_S


@atexit.register
def _close_all() -> None:
    """Close what the program left open, after the compute room has sent what it holds.

    From Python 3.13 on, the threads of a pool that is not closed delay the end by 5 s each.
    """
    for database in tuple(_OPEN):
        with suppress(Exception):
            database.close()
