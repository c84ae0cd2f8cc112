"""Connection to Redis or Valkey; the one module that imports redis.

Errors of redis-py and timeouts are translated here into `FrontDown`. There are no retries: the
caller knows better what to do instead. This module does not use redis-py's clients of clusters and
of Sentinels: they keep a connection to each node, and raise errors that are not `RedisError`.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from redis.asyncio.connection import Connection, parse_url
from redis.exceptions import (
    ClusterDownError,
    MasterDownError,
    MovedError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from taskq.front.address import FrontAddress, RedisNode, RedisRoute
from taskq.front.scripts import script
from taskq.model.errors import Unavailable

CONNECT_S: Final = 1.0
#: A script is answered within this time, or the front counts as down.
ANSWER_S: Final = 0.25
#: Servers asked for one answer: the current one, the one that it names, and one more.
_MOST_SERVERS: Final = 3

Argument = bytes | str | int

_CODES: Final = (
    (MovedError, "MOVED"),
    (MasterDownError, "MASTERDOWN"),
    (ClusterDownError, "CLUSTERDOWN"),
    (ReadOnlyError, "READONLY"),
)

_INFO: Final = re.compile(rb"^(\w+):([\w.]+)\r?$", re.MULTILINE | re.ASCII)


class FrontDown(Unavailable):
    """The front does not answer, or not as it should; go on with PostgreSQL alone."""


if sys.version_info >= (3, 11):
    from asyncio import timeout
else:
    # redis-py brings it along where asyncio has none.
    from async_timeout import timeout  # type: ignore[import-not-found,unused-ignore]


class RedisFacts(NamedTuple):
    """The server that holds a key. run_id: drawn again whenever the server starts."""

    run_id: str
    version: str


class _Wire:
    """One connection without redis-py's client, which would double the cost of a command."""

    def __init__(self, url: str, node: RedisNode) -> None:
        options: dict[str, Any] = dict(parse_url(url))
        kind = options.pop("connection_class", Connection)
        # The time limits are those of `RedisLink`: redis-py's would start a task for each command.
        # RESP 2 needs no HELLO.
        self._connection = kind(
            **options, protocol=2, socket_timeout=None, socket_connect_timeout=CONNECT_S
        )
        self._writer: Any = None
        self.node = node

    async def connect(self) -> None:
        await self._connection.connect()
        self._writer = self._connection._writer  # noqa: SLF001  # see `_abort`

    async def send(self, *command: Argument) -> Any:
        await self._connection.send_command(*command)
        return await self._connection.read_response()

    async def close(self) -> None:
        _abort(self._connection._writer)  # noqa: SLF001  # see there
        # Where sending was broken off, redis-py has dropped the writer, though not all is sent yet.
        _abort(self._writer)
        await self._connection.disconnect(nowait=True)
        await asyncio.sleep(0)  # in the next turn of the loop its socket is closed


def _abort(writer: Any) -> None:
    """Close a connection at once, whatever the peer does; redis-py only closes gracefully.

    Over TLS a graceful end, or sending the rest, could last as long as the peer likes.
    """
    if writer is not None:
        writer.transport.abort()


class _Elsewhere(Exception):
    """The server refuses, since another server has to be asked."""


class RedisLink:
    """One connection, for one asyncio task at a time.

    Opened when first needed, and reopened after it broke. All methods but `close` raise
    `FrontDown`.
    """

    def __init__(self, address: FrontAddress, answer_s: float = ANSWER_S) -> None:
        """answer_s: seconds that a script may take."""
        self._address = address
        self._answer_s = answer_s
        self._route = RedisRoute(address)
        self._wire: _Wire | None = None

    @property
    def connected(self) -> bool:
        """Whether the connection is open."""
        return self._wire is not None

    async def connect(self) -> None:
        """Open the connection if it is not open."""
        await self._opened()

    async def run(self, name: str, keys: Sequence[bytes], args: Sequence[Argument]) -> Any:
        """Run the script `scripts/NAME.lua`; return what it returns, text as bytes, false as None.

        If the answer is lost, it is unknown whether the script has run.
        """
        return await self._asked(self._answer_s, lambda wire: _evaluate(wire, name, keys, args))

    async def wait(self, key: bytes, seconds: float) -> bool:
        """Wait for an element of a list and take it; return False if none came within `seconds`."""
        command = "BLPOP", key, f"{seconds:.3f}"
        limit_s = seconds + self._answer_s
        return await self._asked(limit_s, lambda wire: wire.send(*command)) is not None

    async def info(self, key: bytes) -> RedisFacts:
        """Return facts about the server that holds a key, whether or not the key exists."""
        text = await self.run("info", [key], ())
        if not isinstance(text, bytes):
            raise FrontDown(f"{self._address.display_name} reports no version")
        found = dict(_INFO.findall(text))
        version = found.get(b"valkey_version") or found.get(b"redis_version", b"")
        return RedisFacts(found.get(b"run_id", b"").decode(), version.decode())

    async def close(self) -> None:
        """Close the connection."""
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.close()

    async def _asked(self, seconds: float, ask: Callable[[_Wire], Awaitable[Any]]) -> Any:
        """Ask the server; if it refers to another server, ask that one."""
        refusal = ""
        for _ in range(_MOST_SERVERS):
            wire = await self._opened()
            try:
                return await self._bounded(wire, seconds, ask(wire))
            except _Elsewhere as elsewhere:
                refusal = str(elsewhere)
        raise FrontDown(f"{self._address.display_name} refuses: {refusal}")

    async def _opened(self) -> _Wire:
        if self._wire is None:
            trouble = None
            for node in self._route.nodes():
                try:
                    self._wire = await (
                        self._master(node)
                        if self._address.kind == "sentinel"
                        else self._connected(self._address.url(node), node)
                    )
                    break
                except FrontDown as error:
                    trouble = error
            if self._wire is None:
                raise trouble or FrontDown(f"{self._address.display_name} names no server")
        return self._wire

    async def _connected(self, url: str, node: RedisNode) -> _Wire:
        wire = _Wire(url, node)
        await self._bounded(wire, CONNECT_S, wire.connect())
        return wire

    async def _master(self, sentinel: RedisNode) -> _Wire:
        """Connect to the server that a Sentinel names."""
        name = self._address.master
        asked = await self._connected(self._address.url(sentinel, sentinel=True), sentinel)
        command = asked.send("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)
        answer = await self._bounded(asked, CONNECT_S, command)
        await asked.close()
        try:
            host, port = answer
            master = RedisNode(host.decode(), int(port))
        except (AttributeError, TypeError, ValueError):
            raise FrontDown(f"the Sentinel at {sentinel} knows no server {name!r}") from None
        return await self._connected(self._address.url(master), master)

    async def _bounded(self, wire: _Wire, seconds: float, doing: Awaitable[Any]) -> Any:
        """Bound an operation in time, translate its errors, close the wire if it is out of step."""
        try:
            async with timeout(seconds):
                return await doing
        except BaseException as error:
            name = self._address.display_name
            refusal = _refusal(error)
            if refusal is not None and wire is self._wire:
                if not self._route.leads_on(refusal, wire.node):
                    raise FrontDown(f"{name} refuses: {error}") from error
                await self.close()
                raise _Elsewhere(refusal) from error
            if wire is self._wire:
                self._wire = None
            self._route.lost(wire.node)
            await wire.close()
            if isinstance(error, asyncio.TimeoutError):
                raise FrontDown(f"{name} does not answer in {seconds:g} s") from error
            if isinstance(error, (RedisError, OSError)):
                raise FrontDown(f"cannot use {name}: {error}") from error
            raise


def _refusal(error: BaseException) -> str | None:
    """Return the text of a refusal, beginning with its code; None if the error is not a refusal."""
    if not isinstance(error, ResponseError):
        return None
    # Releases of redis-py differ in whether they leave the code in the text.
    code = next((code for kind, code in _CODES if isinstance(error, kind)), "")
    text = str(error)
    return text if text.startswith(code) else f"{code} {text}"


async def _evaluate(wire: _Wire, name: str, keys: Sequence[bytes], args: Sequence[Argument]) -> Any:
    text, digest = script(name)
    try:
        return await wire.send("EVALSHA", digest, len(keys), *keys, *args)
    except NoScriptError:
        return await wire.send("EVAL", text, len(keys), *keys, *args)
