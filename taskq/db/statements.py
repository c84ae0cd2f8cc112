"""Named statements on one connection."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.adapt import Buffer, Dumper, Loader
from psycopg.rows import tuple_row

from taskq.db.access import Queries
from taskq.db.catalogue import statement
from taskq.db.rows import Row
from taskq.db.silence import WatchedConnection
from taskq.db.stored_json import checked
from taskq_agent.json_limits import MAX_READ_BYTES

#: Seconds in which a server must accept a request to cancel.
CANCEL_S: Final = 5.0

#: Rows that `Statements.table` holds in memory at a time.
_AT_A_TIME: Final = 50

#: Statements whose rows come in PostgreSQL's binary format: as text, bytes take twice the room.
_BINARY: Final = {"blob_parts"}

#: Errors of `create or replace` if a function of the same arguments must be dropped first.
_IRREPLACEABLE: Final = (
    psycopg.errors.InvalidFunctionDefinition,
    psycopg.errors.WrongObjectType,
)


class JsonText(bytes):
    """A JSON value as the server wrote it."""


class _JsonTextLoader(Loader):
    def load(self, data: Buffer) -> JsonText:
        return JsonText(checked(bytes(data), MAX_READ_BYTES))


class EncodedText(bytes):
    """Text in UTF-8 that goes to the server without being decoded here."""


class _EncodedTextDumper(Dumper):
    def dump(self, obj: EncodedText) -> Buffer:
        if obj.find(0) >= 0:
            raise psycopg.DataError(
                "text for PostgreSQL must not contain NUL"
            )  # or it would end there
        return obj


def quoted(name: str | Sequence[str]) -> sql.Composable:
    """Return an identifier, or a list of names in taskq's schema, as SQL."""
    if isinstance(name, str):
        return sql.Identifier(name)
    return sql.SQL(", ").join(sql.Identifier("taskq", part) for part in name)


class Statements(Queries):
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
        binary = name in _BINARY
        return self._cursor.execute(statement(name), values, binary=binary).fetchall()

    def execute(self, name: str, /, **values: object) -> None:
        """Run a statement that returns nothing."""
        self._connection.execute(statement(name), values)

    @contextmanager
    def table(
        self, name: str, /, **values: object
    ) -> Iterator[tuple[list[tuple[str, str]], Iterator[tuple[Any, ...]]]]:
        """Yield the columns of a statement, with PostgreSQL's names of their types, and its rows.

        Rows come a few at a time, so there may be any number, and the caller may stop at any;
        `jsonb` is not decoded. Only in a transaction.
        """
        with psycopg.ServerCursor(self._connection, "table", row_factory=tuple_row) as cursor:
            cursor.adapters.register_loader("jsonb", _JsonTextLoader)
            cursor.adapters.register_dumper(EncodedText, _EncodedTextDumper)
            cursor.itersize = _AT_A_TIME
            cursor.execute(statement(name), values)
            columns = [(column.name, column.type_display) for column in cursor.description or ()]
            yield columns, iter(cursor)

    def define(self, name: str, /, **identifiers: str | Sequence[str]) -> None:
        """Run statements with identifiers, or lists of taskq's, in place of the names in braces."""
        names = {place: quoted(value) for place, value in identifiers.items()}
        # Not prepared: PostgreSQL cannot prepare several statements at once.
        self._connection.execute(sql.SQL(statement(name)).format(**names), prepare=False)

    def script(self, text: str) -> None:
        """Run a shipped script of several statements."""
        self._connection.execute(text.encode())

    def replace_function(self, name: str, text: str) -> None:
        """Run the script that creates or replaces a function; only in a transaction.

        PostgreSQL cannot replace a function by one with another result or other parameter names:
        such a function is dropped first, and loses its grants.
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
        """Cancel the statement that another thread runs here, which raises `Unavailable` there.

        If the server does not take the request within `CANCEL_S` seconds, the socket is shut down.
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
