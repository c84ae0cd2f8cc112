"""The delaying proxy delivers everything, in order, and not before its time."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.wan import MOST_ON_THE_WAY, delayed

DELAY_S = 0.05
TIMEOUT_S = 20.0


def echo(listener: socket.socket) -> None:
    """Send back what comes, on one connection after the other, until the listener is closed."""
    while True:
        try:
            end, _ = listener.accept()
        except OSError:
            return
        with end:
            while data := end.recv(65_536):
                end.sendall(data)


@contextmanager
def serving(listener: socket.socket) -> Iterator[None]:
    """Echo in a thread during the block."""
    thread = threading.Thread(target=echo, args=(listener,))
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)  # wakes up who accepts
        thread.join()


@pytest.fixture
def far() -> Iterator[socket.socket]:
    """Give a connection through the proxy to one who echoes."""
    with (
        socket.create_server(("127.0.0.1", 0)) as target,
        socket.create_server(("127.0.0.1", 0)) as listener,
        serving(target),
        delayed(listener, "{}:{}".format(*target.getsockname()), DELAY_S),
        socket.create_connection(listener.getsockname(), TIMEOUT_S) as end,
    ):
        yield end


def test_answer_takes_the_delay_there_and_back(far: socket.socket) -> None:
    """The first one waits for the proxy to start as well, so the second is measured."""
    far.sendall(b"a")
    assert far.recv(1) == b"a"
    began = time.perf_counter()
    far.sendall(b"b")
    assert far.recv(1) == b"b"
    assert time.perf_counter() - began >= 2 * DELAY_S


def test_everything_arrives_in_order_however_much_it_is(far: socket.socket) -> None:
    """More than may be on the way at once, and then the end."""
    sent = os.urandom(3 * MOST_ON_THE_WAY)

    def send() -> None:
        far.sendall(sent)
        far.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send)
    sender.start()
    received = bytearray()
    while data := far.recv(1_000_000):
        received += data
    sender.join()
    assert received == sent


def test_connections_to_a_unix_socket_are_carried(tmp_path: Path) -> None:
    """As to a database that listens at no port."""
    path = str(tmp_path / "socket")
    with (
        socket.socket(socket.AF_UNIX) as target,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        target.bind(path)
        target.listen()
        with (
            serving(target),
            delayed(listener, path, DELAY_S),
            socket.create_connection(listener.getsockname(), TIMEOUT_S) as end,
        ):
            end.sendall(b"a")
            assert end.recv(1) == b"a"


def test_connection_that_nobody_takes_is_closed(tmp_path: Path) -> None:
    """Rather than left open for ever."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        delayed(listener, str(tmp_path / "absent"), DELAY_S),
        socket.create_connection(listener.getsockname(), TIMEOUT_S) as end,
    ):
        assert end.recv(1) == b""
