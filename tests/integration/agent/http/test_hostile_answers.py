"""Answers without end, in the places where they are not content: each request ends all the same."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException

import pytest

from taskq_agent.http.connections import Connections, Dialer, HttpRequest, read_all
from taskq_agent.http.gateways import GatewayAddress

#: What a server may send until the client gives up; in how many seconds an honest one answers.
MOST_BYTES, TIMEOUT_S = 30 << 20, 1.0

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
INTERIM = b"HTTP/1.1 100 Continue\r\n"
ENDLESS: dict[str, tuple[bytes, bytes]] = {
    "interim answers": (b"", INTERIM + b"\r\n"),
    "interim answers with headers": (b"", INTERIM + b"a: b\r\n" * 50 + b"\r\n"),
    "headers of an interim answer": (INTERIM, b"a: b\r\n"),
    "headers": (OK, b"a: b\r\n"),
    "one header": (OK + b"a: ", b"x" * 65_536),
    "the status": (b"HTTP/1.1 200 ", b"x" * 65_536),
    "the extension of a chunk": (CHUNKED + b"1;", b"x" * 65_536),
    "the size of a chunk": (CHUNKED, b"0" * 65_536),
    "trailers": (CHUNKED + b"1\r\nx\r\n0\r\n", b"a: b\r\n"),
    "one trailer": (CHUNKED + b"1\r\nx\r\n0\r\na: ", b"x" * 65_536),
    "chunks of a byte": (CHUNKED, b"1\r\nx\r\n"),
    "content": (OK + b"\r\n", b"x" * 65_536),
}


@contextmanager
def serving(begin: bytes, again: Iterator[bytes]) -> Iterator[tuple[GatewayAddress, list[int]]]:
    """Serve this to each that connects; also give how many bytes were sent."""
    sent = [0]

    def serve() -> None:
        with suppress(OSError):
            while True:
                peer, _ = listener.accept()
                with peer, suppress(OSError):
                    peer.recv(65_536)
                    for part in itertools.chain([begin], again):
                        peer.sendall(part)
                        sent[0] += len(part)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield GatewayAddress("http", *listener.getsockname()), sent
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(60)
    assert not thread.is_alive(), "the client has left"


def asked(address: GatewayAddress) -> bytes:
    """Return what a client reads, as agents and managers do."""
    connections = Connections(Dialer())
    request = HttpRequest("GET", "/")
    try:
        with connections.answered(address, request, timeout_s=TIMEOUT_S) as answer:
            return read_all(answer, most_bytes=1 << 20, within_s=10.0)
    finally:
        connections.close()


@pytest.mark.parametrize("what", ENDLESS)
def test_answer_without_end_is_given_up(what: str) -> None:
    """After a bounded part of it."""
    begin, again = ENDLESS[what]
    again *= 65_536 // len(again)
    most = MOST_BYTES // len(again)
    with (
        serving(begin, itertools.repeat(again, most)) as (address, sent),
        pytest.raises((OSError, HTTPException, ValueError)),
    ):
        asked(address)
    assert sent[0] < MOST_BYTES - len(again)


@pytest.mark.parametrize("what", ["headers", "one header", "the status", "interim answers"])
def test_answer_that_trickles_is_given_up(what: str) -> None:
    """A byte now and then keeps no request waiting beyond its time."""
    begin, again = ENDLESS[what]
    over = threading.Event()

    def slowly() -> Iterator[bytes]:
        for byte in itertools.cycle(again):
            if over.wait(TIMEOUT_S / 10):
                return
            yield bytes([byte])

    with serving(begin, slowly()) as (address, _):
        begun = time.monotonic()
        with pytest.raises((OSError, HTTPException)):
            asked(address)
        over.set()
    assert time.monotonic() - begun < 50 * TIMEOUT_S


def test_some_interim_answers_and_trailers_are_read_over() -> None:
    """As proxies send them."""
    answer = 3 * (INTERIM + b"a: b\r\n\r\n") + CHUNKED + b"1;a=b\r\nx\r\n0\r\nt: u\r\n\r\n"
    with serving(answer, iter(())) as (address, _):
        assert asked(address) == b"x"
