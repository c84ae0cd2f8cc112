"""A way for bytes between two that speak with each other, in the hands of a test."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from abc import ABC, abstractmethod

from typing_extensions import Self

_LOOK_S = 0.05
_CHUNK = 65_536


class Way(ABC):
    """Passes bytes on in both directions, from whoever connects to where `connect` leads."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        """Begin to pass on."""
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Cut all connections, and take no more."""
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    @abstractmethod
    def connect(self) -> socket.socket:
        """Return a connection to the other end."""

    @abstractmethod
    def passes(self, answer: bytes) -> bool:
        """Return, now or later, whether a part of an answer is passed on; if not, that is all."""

    def _accept(self) -> None:
        while not self._ended.is_set():
            if select.select([self._listener], [], [], _LOOK_S)[0]:
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(client,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), self.connect() as server:
            while not self._ended.is_set():
                for source in select.select([client, server], [], [], _LOOK_S)[0]:
                    data = source.recv(_CHUNK)
                    if not data or (source is server and not self.passes(data)):
                        return
                    (server if source is client else client).sendall(data)
