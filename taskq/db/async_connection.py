"""A dedicated connection to PostgreSQL for asyncio, which may listen between statements."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import psycopg

from taskq.db import sessions
from taskq.db.address import DatabaseAddress
from taskq.db.catalogue import statement
from taskq.db.rows import Row
from taskq.db.silence import WatchedAsyncConnection
from taskq.db.translation import translated
from taskq.model.errors import SchemaNewer, TaskqError

#: Seconds for which a server's timeline is cached: a pooler may switch servers at any moment.
TIMELINE_FRESH_S: Final = 10.0

#: Errors of a standby. The next connection looks for the server that accepts writes.
STANDBY: Final = (
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.ObjectNotInPrerequisiteState,
)


class AsyncConnection:
    """A dedicated connection for asyncio, for one task at a time.

    timeline: of the server that answered last. is_direct: whether no pooler was seen in between.
    opened: how often it was opened; what a session keeps, such as that it listens, ends with it.
    heard: called for each notification of another session, also while no statement runs.
    """

    def __init__(self, address: DatabaseAddress, heard: Callable[[], None] | None = None) -> None:
        self._address = address
        self._heard = heard
        self._watched: int | None = None
        self.opened = 0
        self.is_direct = False
        self._connection: WatchedAsyncConnection | None = None
        self._cursor: psycopg.AsyncCursor[Row] | None = None
        self.timeline = 0
        self._stale_at = 0.0

    async def rows(self, name: str, /, **values: object) -> list[Row]:
        """Return all rows of a statement; translate errors.

        If the connection broke, or an upgrade replaced what the statement was prepared for, it is
        retried once on a new connection. So statements sent here must be idempotent.
        """
        with translated(self._address.server):
            if self._cursor is not None:
                try:
                    return await self._rows(name, values)
                except psycopg.OperationalError:
                    if self._cursor is not None:
                        raise
                except psycopg.Error as error:
                    if not await self._is_upgraded(error):
                        raise
                    await self.close()
            try:
                return await self._rows(name, values)
            except psycopg.Error as error:
                if await self._is_upgraded(error):
                    await self.check_installed()
                raise

    async def check_installed(self) -> None:
        """Raise `SchemaNewer` if the database was upgraded since this process began to use it."""
        with translated(self._address.server):
            (row,) = await self._rows("installation", {})
        self._address.installed.check(row, self._address.server)

    async def _is_upgraded(self, error: psycopg.Error) -> bool:
        """Return whether an upgrade may have caused an error."""
        if not self._address.installed.explains(error):
            return False
        try:
            await self.check_installed()
        except SchemaNewer:
            return True
        except TaskqError:
            pass
        return False

    async def _rows(self, name: str, values: dict[str, object]) -> list[Row]:
        self._watch(on=False)
        try:
            if self._connection is None or self._cursor is None:
                self._connection = await self._address.connect_async()
                self._cursor = self._connection.cursor()
                self._stale_at = 0.0
                self.opened += 1
                if self._heard:
                    self._connection.add_notify_handler(lambda note: self._note(note.pid))
            if time.monotonic() >= self._stale_at:
                begin = statement("begin_session"), sessions.wanted(self._connection)
                await self._cursor.execute(*begin)
                (row,) = await self._cursor.fetchall()
                sessions.begin(self._connection, row, self._address.server)
                await self._cursor.execute(statement("timeline"))
                (found,) = await self._cursor.fetchall()
                self.timeline = found["timeline"]
                self._address.takeovers.note(self.timeline)
                self.is_direct = row["pid"] == self._connection.info.backend_pid
                self._stale_at = time.monotonic() + TIMELINE_FRESH_S
            await self._cursor.execute(statement(name), values)
            return await self._cursor.fetchall()
        except STANDBY:
            await self.close()
            raise
        finally:
            if self._connection is not None and self._connection.closed:
                self._connection = self._cursor = None
            self._watch(on=True)

    def _watch(self, *, on: bool) -> None:
        """Read what comes between statements, or leave that to psycopg: one reader at a time."""
        if self._watched is not None:
            asyncio.get_running_loop().remove_reader(self._watched)
            self._watched = None
        if on and self._heard is not None and self._connection is not None:
            self._watched = self._connection.fileno()
            asyncio.get_running_loop().add_reader(self._watched, self._read, self._connection)

    def _read(self, connection: WatchedAsyncConnection) -> None:
        try:
            connection.pgconn.consume_input()
            while note := connection.pgconn.notifies():
                self._note(note.be_pid)
        except psycopg.OperationalError:  # broken: the next statement opens another
            self._watch(on=False)

    def _note(self, pid: int) -> None:
        if self._heard and self._connection and pid != self._connection.info.backend_pid:
            self._heard()

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._watch(on=False)
            await self._connection.close()
        self._connection = self._cursor = None
