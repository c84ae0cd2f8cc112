"""A way to a gateway that lets just so much through, so that transfers break where a test wants."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LOOK_S = 0.05
_CHUNK = 65_536


class Bottleneck:
    """Passes bytes on; of answers no more than `most`, then everything stands still.

    carried: bytes of answers that were passed on. stuck: set when it stands still. most may be
    changed at any time before. TLS goes through as it is.
    """

    def __init__(self, port: int, most: float) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self.most = most
        self.carried = 0
        self.stuck = threading.Event()
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        """Cut all connections, and take no more."""
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while not self._ended.is_set():
            if select.select([self._listener], [], [], _LOOK_S)[0]:
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(client,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), socket.create_connection(self._target) as server:
            while not self._ended.is_set():
                for source in select.select([client, server], [], [], _LOOK_S)[0]:
                    if source is server and self.carried >= self.most:
                        self.stuck.set()
                        self._ended.wait()
                        return
                    data = source.recv(_CHUNK)
                    if not data:
                        return
                    if source is client:
                        server.sendall(data)
                    else:
                        client.sendall(data)
                        self.carried += len(data)


@contextmanager
def bottleneck(port: int, most: float) -> Iterator[Bottleneck]:
    """Give a way to the gateway at a port."""
    way = Bottleneck(port, most)
    try:
        yield way
    finally:
        way.close()
