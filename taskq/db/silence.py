"""Servers that fall silent while their connections stay open: frozen, or cut off from the network.

The kernel of a frozen process acknowledges what it receives, so neither TCP nor libpq ever ends a
statement there, and a deadline cannot tell a silent server from a long statement. So when a
statement has waited for `PATIENCE_S`, a new connection asks whether the server answers anybody.
While it does, the statement may take as long as it needs. If not, the connection is abandoned,
and with it all other connections to this server that are open by then. There is no request to
cancel, which would hang too. The next connection tries the other hosts of the DSN first.

All connections of taskq are of the two classes here.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import time
from contextlib import nullcontext, suppress
from typing import Any, Final, TypeAlias, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from typing_extensions import Self

from taskq.db.environment import without_unnamed
from taskq.db.logins import note_refusal

#: Seconds to wait for an answer before asking whether the server answers anybody; the same again
#: after it has answered.
PATIENCE_S: Final = 5.0
#: Seconds in which it must answer. Both together are less than a failover takes.
ANSWER_S: Final = 6.0
#: Seconds for which the other hosts of a DSN come before a silent one.
PUT_OFF_S: Final = 60.0

#: SSLRequest, which a server answers with one byte before any login; see
#: https://www.postgresql.org/docs/current/protocol-message-formats.html. PostgreSQL logs nothing
#: about a client that leaves after it.
_HELLO: Final = (8).to_bytes(4, "big") + (80877103).to_bytes(4, "big")

#: Errors of a connection that is still being made.
_UNDER_WAY: Final = {errno.EINPROGRESS, errno.EALREADY, errno.EAGAIN}

_Server: TypeAlias = tuple[str, int]
#: When each server was last found silent.
_silent_at: dict[_Server, float] = {}

T = TypeVar("T")


class ServerSilent(psycopg.OperationalError):
    """The server answers neither a statement nor a new connection; this one was abandoned."""


class _Hello:
    """A new connection to the server at the other end of a socket, which never blocks."""

    def __init__(self, fileno: int) -> None:
        with socket.socket(fileno=os.dup(fileno)) as known:
            family, self._peer = known.family, known.getpeername()
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._is_sent = False

    def is_answered(self) -> bool | None:
        """Return whether the server has answered: None means not yet, False that nobody listens."""
        try:
            if not self._is_sent:
                state = self._socket.connect_ex(self._peer)
                if state in _UNDER_WAY:
                    return None
                # There is room for eight bytes. This raises any refusal but to wait.
                self._socket.send(_HELLO)
                self._is_sent = True
            return bool(self._socket.recv(1))
        except BlockingIOError:
            return None
        except OSError:
            return False

    def close(self) -> None:
        self._socket.close()


class _Watch:
    """Finds out whether the server that a connection waits for is silent."""

    def __init__(self, connection: Watched) -> None:
        self._connection = connection
        self._hello: _Hello | None = None
        self._until = time.monotonic() + PATIENCE_S

    def look(self) -> None:
        """Raise `ServerSilent` if the server is silent. Call it repeatedly while nothing comes."""
        check(self._connection)
        answered = None if self._hello is None else self._hello.is_answered()
        is_late = time.monotonic() > self._until
        if answered:
            self.close()
            self._until = time.monotonic() + PATIENCE_S
        elif answered is False or (self._hello is not None and is_late):
            _silent_at[self._connection.server] = time.monotonic()
        elif is_late:
            # An error on this side says nothing about the server.
            with suppress(OSError):
                self._hello = _Hello(self._connection.fileno())
                self._until = time.monotonic() + ANSWER_S
        check(self._connection)

    def close(self) -> None:
        if self._hello is not None:
            self._hello.close()
            self._hello = None


def check(connection: Watched) -> None:
    """Raise `ServerSilent` if the server was found silent after this connection was opened."""
    if _silent_at.get(connection.server, 0.0) > connection.opened_at:
        host, port = connection.server
        raise ServerSilent(f"{host}:{port} answers neither this connection nor a new one")


def _watched(connection: Watched, steps: PQGen[T]) -> PQGen[T]:
    """Pass on the steps of a statement, and check the server whenever nothing has come."""
    watch: _Watch | None = None
    check(connection)
    try:
        waits_for = next(steps)
        while True:
            ready = yield waits_for
            if not ready:
                watch = watch or _Watch(connection)
                watch.look()
            waits_for = steps.send(ready)
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        if watch is not None:
            watch.close()


def _put_off(conninfo: str) -> str:
    """Return the parameters with the hosts that were silent lately after the others."""
    if not _silent_at:
        return conninfo
    parts = {name: str(value) for name, value in conninfo_to_dict(conninfo).items()}
    lists = {name: parts[name].split(",") for name in ("host", "hostaddr", "port") if name in parts}
    several = max(map(len, lists.values()), default=1)
    if several == 1:
        return conninfo
    lists = {name: of if len(of) == several else of * several for name, of in lists.items()}
    names = lists.get("host") or lists["hostaddr"]
    ports = lists.get("port") or [""] * several
    since = time.monotonic() - PUT_OFF_S
    silent = {server for server, at in _silent_at.items() if at > since}

    def was_silent(number: int) -> bool:
        name, port = names[number], ports[number]
        return any(host == name and port in {"", str(its)} for host, its in silent)

    order = sorted(range(several), key=was_silent)
    return make_conninfo(
        conninfo, **{name: ",".join(of[number] for number in order) for name, of in lists.items()}
    )


class WatchedConnection(psycopg.Connection[dict[str, Any]]):
    """A connection that is abandoned when its server falls silent.

    used_at: when a pool lent it last, until when it was used.
    """

    def __init__(self, *values: Any, **options: Any) -> None:
        super().__init__(*values, **options)
        self.server = (self.info.host, self.info.port)
        self.opened_at = self.used_at = time.monotonic()

    @classmethod
    def connect(cls, conninfo: str = "", **options: Any) -> Self:
        """Open a connection; `alone`: all variables of libpq's are without effect."""
        conninfo = _put_off(conninfo)
        with without_unnamed() if options.pop("alone", False) else nullcontext():
            return cls._connect(conninfo, **options)

    @classmethod
    def _connect(cls, conninfo: str, **options: Any) -> Self:
        try:
            return super().connect(conninfo, **options)
        except psycopg.OperationalError as error:
            note_refusal(error, conninfo)
            raise

    def wait(self, gen: PQGen[T], *values: Any, **options: Any) -> T:
        """Wait for a statement; see `psycopg.Connection.wait`. Raise `ServerSilent`."""
        try:
            return super().wait(_watched(self, gen), *values, **options)
        except ServerSilent:
            self.pgconn.finish()
            raise


class WatchedAsyncConnection(psycopg.AsyncConnection[dict[str, Any]]):
    """The same for asyncio."""

    def __init__(self, *values: Any, **options: Any) -> None:
        super().__init__(*values, **options)
        self.server = (self.info.host, self.info.port)
        self.opened_at = time.monotonic()

    @classmethod
    async def connect(cls, conninfo: str = "", **options: Any) -> Self:
        """Open a connection; see `WatchedConnection.connect`."""
        conninfo = _put_off(conninfo)
        with without_unnamed() if options.pop("alone", False) else nullcontext():
            return await cls._connect(conninfo, **options)

    @classmethod
    async def _connect(cls, conninfo: str, **options: Any) -> Self:
        try:
            return await super().connect(conninfo, **options)
        except psycopg.OperationalError as error:
            await asyncio.to_thread(note_refusal, error, conninfo)
            raise

    async def wait(self, gen: PQGen[T], *values: Any, **options: Any) -> T:
        """Wait for a statement; see `WatchedConnection`."""
        try:
            return await super().wait(_watched(self, gen), *values, **options)
        except ServerSilent:
            self.pgconn.finish()
            raise


Watched: TypeAlias = WatchedConnection | WatchedAsyncConnection
