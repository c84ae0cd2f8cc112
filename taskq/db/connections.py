"""Connections to PostgreSQL, from a pool or dedicated, for threads and for asyncio.

Statements are those of the catalogue, called by name. Errors are those of `address.translated`.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import psycopg
import psycopg_pool
from psycopg import sql
from psycopg.adapt import Buffer, Loader
from psycopg.rows import tuple_row
from typing_extensions import Self

from taskq.db.access import check_process
from taskq.db.address import (
    POOL_TIMEOUT_S,
    DatabaseAddress,
    Row,
    display_name,
    note_backend,
    quoted,
    translated,
)
from taskq.db.catalogue import statement
from taskq.db.silence import WatchedAsyncConnection, WatchedConnection

__all__ = ["AsyncConnection", "Connection", "Database", "JsonText", "Row", "Statements"]

#: Seconds in which a server must take the request to cancel a statement.
CANCEL_S: Final = 5.0

#: Seconds for which a server's timeline is cached: a pooler may switch servers at any moment.
TIMELINE_FRESH_S: Final = 10.0

#: Rows that are in memory at a time where `Statements.table` goes through many.
_AT_A_TIME: Final = 50

T = TypeVar("T")

#: Errors of a standby. The next connection looks for the server that accepts writes.
_STANDBY: Final = (
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.ObjectNotInPrerequisiteState,
)


#: Errors of `create or replace` where a function of the same arguments has to be dropped first.
_IRREPLACEABLE: Final = (
    psycopg.errors.InvalidFunctionDefinition,
    psycopg.errors.WrongObjectType,
)


class JsonText(bytes):
    """A JSON value as the server wrote it."""


class _JsonTextLoader(Loader):
    def load(self, data: Buffer) -> JsonText:
        return JsonText(data)


class Statements:
    """Runs named statements on one connection, in or outside a transaction."""

    def __init__(self, connection: WatchedConnection) -> None:
        self._connection = connection
        # One cursor for all statements: creating one costs as much as using it.
        self._cursor = connection.cursor()

    @property
    def is_closed(self) -> bool:
        """Whether the connection was closed."""
        return self._connection.closed

    def rows(self, name: str, /, **values: object) -> list[Row]:
        """Return all rows of a statement."""
        return self._cursor.execute(statement(name), values).fetchall()

    def row(self, name: str, /, **values: object) -> Row | None:
        """Return the first row, None if there is none."""
        return self._cursor.execute(statement(name), values).fetchone()

    def value(self, name: str, /, **values: object) -> Any:
        """Return the first column of the first row, None if there is none."""
        row = self.row(name, **values)
        return None if row is None else next(iter(row.values()))

    def execute(self, name: str, /, **values: object) -> None:
        """Run a statement that returns nothing."""
        self._connection.execute(statement(name), values)

    @contextmanager
    def table(
        self, name: str, /, **values: object
    ) -> Iterator[tuple[list[tuple[str, str]], Iterator[tuple[Any, ...]]]]:
        """Yield the columns of a statement, with PostgreSQL's names of their types, and its rows.

        Rows come a few at a time, so that any number can be gone through, and need not be taken;
        `jsonb` is not decoded. Only in a transaction.
        """
        with psycopg.ServerCursor(self._connection, "table", row_factory=tuple_row) as cursor:
            cursor.adapters.register_loader("jsonb", _JsonTextLoader)
            cursor.itersize = _AT_A_TIME
            cursor.execute(statement(name), values)
            columns = [(one.name, one.type_display) for one in cursor.description or ()]
            yield columns, iter(cursor)

    def define(self, name: str, /, **identifiers: str | Sequence[str]) -> None:
        """Run statements with identifiers, or lists of ours, in place of the names in braces."""
        names = {place: quoted(value) for place, value in identifiers.items()}
        # Not prepared: PostgreSQL cannot prepare several statements at once.
        self._connection.execute(sql.SQL(statement(name)).format(**names), prepare=False)

    def script(self, text: str) -> None:
        """Run a shipped script of several statements."""
        self._connection.execute(text.encode())

    def replace_function(self, name: str, text: str) -> None:
        """Run the script that creates or replaces a function; only in a transaction.

        PostgreSQL cannot replace a function by one with another result or other names of
        parameters: it is dropped first, and loses its grants.
        """
        try:
            with self._connection.transaction():
                self.script(text)
        except _IRREPLACEABLE:
            self.define("drop_function", routine=name)
            self.script(text)

    def copy(self, name: str, rows: Iterable[Sequence[object]]) -> None:
        """Stream rows into a COPY statement."""
        with self._connection.cursor().copy(statement(name)) as copy:
            for row in rows:
                copy.write_row(row)

    def cancel(self) -> None:
        """Cancel the statement that another thread runs here, where it raises `Unavailable`.

        A server that cannot be asked to within `CANCEL_S` seconds is not heard any more.
        """
        try:
            # `cancel` keeps the interpreter's lock until the server answers: not even Ctrl-C works.
            self._connection.cancel_safe(timeout=CANCEL_S)
        except psycopg.Error:
            with suppress(OSError), socket.socket(fileno=os.dup(self._connection.fileno())) as end:
                end.shutdown(socket.SHUT_RDWR)

    def copy_text(self, name: str, lines: bytes) -> None:
        """Send rows in COPY's text format to a COPY statement in one piece."""
        with self._connection.cursor().copy(statement(name)) as copy:
            copy.write(lines)


def _look(connection: WatchedConnection) -> None:
    """Detect a pooler behind a new connection of the pool; see `note_backend`."""
    note_backend(connection, Statements(connection).value("backend"))


class Connection:
    """A dedicated connection, for a caller that uses it all the time. Not thread-safe.

    It is opened when first needed, and again after it broke. timeline: that of the server, which
    changes when another takes over; up to date while `connected`.
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
                    (row,) = self._statements.rows("timeline_and_pid")
                    self.timeline = row["timeline"]
                    self._address.takeovers.note(self.timeline)
                    note_backend(connection, row["pid"])
                    self._stale_at = time.monotonic() + TIMELINE_FRESH_S
                yield self._statements
            except _STANDBY:
                connection.close()
                raise
            finally:
                if connection.closed or connection.broken:
                    self._connection = self._statements = None

    def close(self) -> None:
        """Close the connection; in a forked child, leave it to the parent."""
        if self._connection is not None and os.getpid() == self._process:
            self._connection.close()
        self._connection = self._statements = None


class AsyncConnection:
    """A dedicated connection for asyncio, for one task at a time.

    timeline: that of the server that answered last.
    """

    def __init__(self, address: DatabaseAddress) -> None:
        self._address = address
        self._connection: WatchedAsyncConnection | None = None
        self._cursor: psycopg.AsyncCursor[Row] | None = None
        self.timeline = 0
        self._stale_at = 0.0

    async def rows(self, name: str, /, **values: object) -> list[Row]:
        """Return all rows of a statement; translate errors.

        If the connection is broken, the statement is retried once on a new one, so statements that
        are sent here must be idempotent.
        """
        with translated(self._address.server):
            if self._cursor is not None:
                try:
                    return await self._rows(name, values)
                except psycopg.OperationalError:
                    if self._cursor is not None:
                        raise
            return await self._rows(name, values)

    async def _rows(self, name: str, values: dict[str, object]) -> list[Row]:
        try:
            if self._connection is None or self._cursor is None:
                self._connection = await self._address.connect_async()
                self._cursor = self._connection.cursor()
                self._stale_at = 0.0
            if time.monotonic() >= self._stale_at:
                await self._cursor.execute(statement("timeline_and_pid"))
                (row,) = await self._cursor.fetchall()
                self.timeline = row["timeline"]
                self._address.takeovers.note(self.timeline)
                note_backend(self._connection, row["pid"])
                self._stale_at = time.monotonic() + TIMELINE_FRESH_S
            await self._cursor.execute(statement(name), values)
            return await self._cursor.fetchall()
        except _STANDBY:
            await self.close()
            raise
        finally:
            if self._connection is not None and self._connection.closed:
                self._connection = self._cursor = None

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            await self._connection.close()
        self._connection = self._cursor = None


class Database:
    """A database, accessed through a pool of connections. Thread-safe."""

    def __init__(self, dsn: str, *, server: str | None = None, most: int = 8) -> None:
        """Set the pool up; it opens no connection yet.

        most: connections of the pool. server: its name in messages, never the DSN, which may
        contain a password; by default `address.display_name`. Statements are prepared unless a
        pooler is in between, or as `TASKQ_PREPARE` says.
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
            configure=_look,
            check=psycopg_pool.ConnectionPool.check_connection,
            open=False,
        )
        self._process = os.getpid()

    def open(self) -> Self:
        """Connect once, so that a wrong address fails at once.

        Raise `LoginRefused` if the server refuses the login, `Unavailable` if none answers.
        """
        with translated(self.server):
            self._address.connect().close()
            self._pool.open()
        return self

    def close(self) -> None:
        """Close all connections; in a forked child, leave them to the parent."""
        if os.getpid() == self._process:
            self._pool.close()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, so that nothing can be asked any more."""
        return self._pool.closed

    @property
    def takeovers(self) -> int:
        """How often another server has answered its dedicated connections: a change is news."""
        return self._address.takeovers.count

    def anonymous(self, *, most: int = 8) -> Database:
        """Return the same database, opened, under a name that may be shown to anybody."""
        return Database(self.dsn, server="the database", most=most).open()

    @contextmanager
    def _lent(self) -> Iterator[WatchedConnection]:
        check_process(self._process)
        with translated(self.server), self._pool.connection() as connection:
            try:
                yield connection
            except _STANDBY:
                connection.close()
                raise

    @contextmanager
    def connection(self) -> Iterator[Statements]:
        """Yield a pooled connection on which each statement commits by itself."""
        with self._lent() as connection:
            yield Statements(connection)

    @contextmanager
    def transaction(self) -> Iterator[Statements]:
        """Yield a pooled connection in a transaction: the block commits entirely or not at all."""
        with self._lent() as connection, connection.transaction():
            yield Statements(connection)

    def in_snapshot(self, read: Callable[[Statements], T]) -> T:
        """Return what a function reads in one snapshot, in a transaction that cannot write."""
        with self.transaction() as snapshot:
            snapshot.execute("audit_snapshot")
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

    def dedicated_async_connection(self) -> AsyncConnection:
        """Return a connection for asyncio outside the pool, which opens at its first use."""
        return AsyncConnection(self._address)

    def rows(self, name: str, /, **values: object) -> list[Row]:
        """Return all rows of a statement."""
        with self.connection() as statements:
            return statements.rows(name, **values)

    def row(self, name: str, /, **values: object) -> Row | None:
        """Return the first row, None if there is none."""
        with self.connection() as statements:
            return statements.row(name, **values)

    def value(self, name: str, /, **values: object) -> Any:
        """Return the first column of the first row, None if there is none."""
        with self.connection() as statements:
            return statements.value(name, **values)
