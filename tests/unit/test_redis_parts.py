"""The private parts of redis-py that the front relies on: here they are named, all of them.

A release of redis-py that changes one fails here first; setup.cfg says up to which one this was
run.
"""

from __future__ import annotations

import inspect

import pytest

pytest.importorskip("redis")

from redis.asyncio.connection import (
    Connection,
    SSLConnection,
    UnixDomainSocketConnection,
    parse_url,
)

KINDS = (Connection, SSLConnection, UnixDomainSocketConnection)


def made(url: str) -> Connection:
    """Return a connection made as the front makes one, not yet open."""
    options = dict(parse_url(url))
    kind = options.pop("connection_class", Connection)
    assert issubclass(kind, KINDS)
    connection: Connection = kind(
        **options, protocol=2, socket_timeout=None, socket_connect_timeout=1.0
    )
    return connection


@pytest.mark.parametrize(
    "url", ["redis://host:6379/0", "rediss://:word@host:6379/1", "unix:///socket?db=2"]
)
def test_connection_shows_its_writer(url: str) -> None:
    """By which it is cut at once: from the beginning, and once it is open."""
    assert made(url)._writer is None  # noqa: SLF001
    connect = inspect.getsource(type(made(url))._connect)  # noqa: SLF001
    assert "self._reader, self._writer = " in connect or "self._writer = writer" in connect


def test_connection_is_used_without_a_client() -> None:
    """One command at a time; what is broken off drops the writer, without waiting for the peer."""
    for name in ("connect", "send_command", "read_response", "disconnect"):
        assert inspect.iscoroutinefunction(getattr(Connection, name)), name
    assert "nowait" in inspect.signature(Connection.disconnect).parameters
