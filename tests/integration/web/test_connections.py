"""Viewers' connections that say nothing, or what can be read in two ways."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from taskq.gateway.http.connection import ARRIVAL_S
from tests.integration.web.conftest import WebProcess

END_S = ARRIVAL_S + 40


@contextmanager
def connected(web: WebProcess, data: bytes) -> Iterator[socket.socket]:
    """Give a connection over which so much was sent."""
    with socket.create_connection(("127.0.0.1", web.port), timeout=END_S) as sock:
        sock.sendall(data)
        yield sock


def until_end(sock: socket.socket) -> bytes:
    """Return all that comes until the other side ends the connection."""
    parts = []
    try:
        while part := sock.recv(65_536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


@pytest.mark.thorough
def test_connections_that_send_no_whole_request_end(web: WebProcess) -> None:
    """Whatever part of one has come; otherwise a thousand keep all viewers out for ever."""
    head = b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\n"
    beginnings = [b"", b"GET", head, head + b"Content-Length: 9\r\n\r\nto"]
    with ExitStack() as stack:
        silent = [stack.enter_context(connected(web, part)) for part in beginnings]
        for sock in silent:
            assert b"200 OK" not in until_end(sock)


@pytest.mark.parametrize(
    "folded",
    [
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Of: a\r\n b\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\tX-Of: a\r\n\r\n",
        b"GET /healthz HTTP/1.1\nHost: localhost\nX-Of: a\n b\n\n",
    ],
    ids=["space", "tab", "bare-lf"],
)
def test_folded_lines_of_a_head_are_refused(web: WebProcess, folded: bytes) -> None:
    """Alone, in pieces, and behind another request."""
    with connected(web, folded) as sock:
        assert until_end(sock).startswith(b"HTTP/1.1 400 ")
    with connected(web, folded[:-12]) as sock:
        sock.sendall(folded[-12:])
        assert until_end(sock).startswith(b"HTTP/1.1 400 ")
    first = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with connected(web, first + folded) as sock:
        assert until_end(sock).count(b"200 OK") < 2
