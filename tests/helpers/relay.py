"""Relays that forward bytes between two peers, under the control of a test."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from abc import ABC, abstractmethod
from pathlib import Path

from typing_extensions import Self

_LOOK_S = 0.05
_HANDSHAKE_S = 10.0
_CHUNK = 65_536


class Relay(ABC):
    """Forwards bytes in both directions, between each client and the target of `connect`.

    accepts: whether new clients are let in; those that are not wait.
    """

    def __init__(self, listener: socket.socket) -> None:
        self.accepts = True
        self._listener = listener
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        """Begin to forward."""
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close all connections, and accept no more."""
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    @abstractmethod
    def connect(self) -> socket.socket:
        """Return a connection to the other end."""

    def welcome(self, client: socket.socket) -> socket.socket:
        """Return the connection from which the data of an accepted client is read."""
        return client

    def passes(self, answer: bytes) -> bool:  # noqa: ARG002  # those who inherit look at it
        """Return, now or later, whether to forward part of an answer; if not, the relay ends."""
        return True

    def _accept(self) -> None:
        while not self._ended.is_set():
            if not self.accepts:
                self._ended.wait(_LOOK_S)
            elif select.select([self._listener], [], [], _LOOK_S)[0]:
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(client,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, accepted: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),
            accepted,
            self.welcome(accepted) as client,
            self.connect() as server,
        ):
            while not self._ended.is_set():
                for source in select.select([client, server], [], [], _LOOK_S)[0]:
                    data = _received(source)
                    if not data or (source is server and not self.passes(data)):
                        return
                    (server if source is client else client).sendall(data)


class TlsRelay(Relay):
    """Accepts TLS on a port of 127.0.0.1, in front of a Unix socket without TLS."""

    def __init__(self, target: Path, context: ssl.SSLContext) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        super().__init__(listener)
        self.port: int = listener.getsockname()[1]
        self._target = target
        self._context = context

    def connect(self) -> socket.socket:
        """Return a connection to the socket."""
        server = socket.socket(socket.AF_UNIX)
        server.connect(str(self._target))
        return server

    def welcome(self, client: socket.socket) -> socket.socket:
        """Return the connection once both sides have agreed on TLS."""
        client.settimeout(_HANDSHAKE_S)
        return self._context.wrap_socket(client, server_side=True)


def _received(source: socket.socket) -> bytes:
    """Return received data, including what TLS has buffered, which `select` does not see."""
    data = source.recv(_CHUNK)
    while isinstance(source, ssl.SSLSocket) and source.pending():
        data += source.recv(source.pending())
    return data
