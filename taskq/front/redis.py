"""Connection to Redis or Valkey; the one module that imports redis.

Errors of redis-py and timeouts are translated here into `FrontDown`. There are no retries: the
caller knows better what to do instead.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

from redis.asyncio.cluster import RedisCluster
from redis.asyncio.connection import Connection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError, ResponseError

from taskq.errors import Unavailable
from taskq.front.address import FrontAddress
from taskq.front.scripts import script


class FrontDown(Unavailable):
    """The front does not answer, or not as it should; go on with PostgreSQL alone."""


if sys.version_info >= (3, 11):
    from asyncio import timeout
else:
    # redis-py brings it along where asyncio has none.
    from async_timeout import timeout  # type: ignore[import-not-found,unused-ignore]

CONNECT_S: Final = 1.0
#: A script is answered within this time, or the front counts as down.
ANSWER_S: Final = 0.25

Argument = bytes | str | int


class RedisFacts(NamedTuple):
    """The server that holds a key. run_id: drawn anew whenever the server starts."""

    run_id: str
    version: str


class _Wire(Protocol):
    """A way to send commands to a server."""

    async def send(self, *command: Argument) -> Any: ...

    async def close(self) -> None: ...


class _Single:
    """One connection without redis-py's client, which would double the cost of a command."""

    def __init__(self, url: str) -> None:
        options: dict[str, Any] = dict(parse_url(url))
        kind = options.pop("connection_class", Connection)
        # The time limits are those of `RedisLink`: redis-py's would start a task for each command.
        # RESP 2 needs no HELLO.
        self._connection = kind(
            **options, protocol=2, socket_timeout=None, socket_connect_timeout=CONNECT_S
        )
        self._writer: Any = None

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


class _Cluster:
    """A cluster; redis-py finds the node of a command's first key, and follows it if it moves."""

    def __init__(self, url: str) -> None:
        self._client = RedisCluster.from_url(
            url,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=None,
            socket_connect_timeout=CONNECT_S,
        )

    async def connect(self) -> None:
        await self._client.initialize()

    async def send(self, *command: Argument) -> Any:
        return await self._client.execute_command(*command)

    async def close(self) -> None:
        manager = self._client.nodes_manager
        for node in (*manager.nodes_cache.values(), *manager.startup_nodes.values()):
            for connection in node._connections:  # noqa: SLF001  # see `_abort`
                _abort(connection._writer)  # noqa: SLF001
        with suppress(RedisError, OSError):
            await self._client.aclose()


def _abort(writer: Any) -> None:
    """Close a connection at once, whatever the peer does; redis-py only closes gracefully.

    Over TLS a graceful end, or sending the rest, could last as long as the peer likes.
    """
    if writer is not None:
        writer.transport.abort()


class RedisLink:
    """One connection, for one asyncio task at a time.

    Opened when first needed, and reopened after it broke. All methods but `close` raise
    `FrontDown`.
    """

    def __init__(self, address: FrontAddress, answer_s: float = ANSWER_S) -> None:
        """answer_s: seconds that a script may take."""
        self._address = address
        self._answer_s = answer_s
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
        wire = await self._opened()
        return await self._bounded(wire, self._answer_s, _evaluate(wire, name, keys, args))

    async def wait(self, key: bytes, seconds: float) -> bool:
        """Wait for an element of a list and take it; False: there was none within `seconds`."""
        wire = await self._opened()
        element = wire.send("BLPOP", key, f"{seconds:.3f}")
        return await self._bounded(wire, seconds + self._answer_s, element) is not None

    async def info(self, key: bytes) -> RedisFacts:
        """Return facts about the server that holds a key, whether or not the key exists."""
        text = await self.run("info", [key], ())
        if not isinstance(text, bytes):
            raise FrontDown(f"{self._address.display_name} does not say what it is")
        found = dict(_INFO.findall(text))
        version = found.get(b"valkey_version") or found.get(b"redis_version", b"")
        return RedisFacts(found.get(b"run_id", b"").decode(), version.decode())

    async def close(self) -> None:
        """Close the connection."""
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.close()

    async def _opened(self) -> _Wire:
        if self._wire is None:
            wire = (_Cluster if self._address.cluster else _Single)(self._address.url)
            await self._bounded(wire, CONNECT_S, wire.connect())
            self._wire = wire
        return self._wire

    async def _bounded(self, wire: _Wire, seconds: float, doing: Awaitable[Any]) -> Any:
        """Bound an operation in time, translate its errors, close the wire if it is out of step."""
        try:
            async with timeout(seconds):
                return await doing
        except BaseException as error:
            name = self._address.display_name
            if isinstance(error, ResponseError) and wire is self._wire:
                raise FrontDown(f"{name} refuses: {error}") from error
            self._wire = None
            await wire.close()
            if isinstance(error, asyncio.TimeoutError):
                raise FrontDown(f"{name} does not answer in {seconds:g} s") from error
            if isinstance(error, (RedisError, OSError)):
                raise FrontDown(f"cannot use {name}: {error}") from error
            raise


async def _evaluate(wire: _Wire, name: str, keys: Sequence[bytes], args: Sequence[Argument]) -> Any:
    text, digest = script(name)
    try:
        return await wire.send("EVALSHA", digest, len(keys), *keys, *args)
    except NoScriptError:
        return await wire.send("EVAL", text, len(keys), *keys, *args)


_INFO: Final = re.compile(rb"^(\w+):([\w.]+)\r?$", re.MULTILINE | re.ASCII)
