"""A way between a gateway and its database that a test can hold up."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

_LOOK_S = 0.05


class Relay:
    """Passes bytes on in both directions, until an answer comes while `is_moment` is true.

    It is then held, and all that follow, until `answer` is called: the statement has been committed
    and nobody knows. dsn: how to reach the database through the relay.
    """

    def __init__(self, dsn: str, folder: Path) -> None:
        known = conninfo_to_dict(dsn)
        port = known["port"]
        self._target = f"{known['host']}/.s.PGSQL.{port}"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / f".s.PGSQL.{port}"))
        self._listener.listen()
        self.dsn = make_conninfo(dsn, host=str(folder))
        self.is_moment: Callable[[], bool] = lambda: False
        # Nobody lets answers go between somebody else's look at the moment and its holding them.
        self._turn = threading.Lock()
        self._answering = threading.Event()
        self._answering.set()
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def answer(self) -> None:
        """Pass on what was held, and all that follows."""
        with self._turn:
            self.is_moment = lambda: False
            self._answering.set()

    def close(self) -> None:
        """Cut all connections."""
        self._ended.set()
        self.answer()
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
        with client, socket.socket(socket.AF_UNIX) as server, contextlib.suppress(OSError):
            server.connect(self._target)
            while not self._ended.is_set():
                for source in select.select([client, server], [], [], _LOOK_S)[0]:
                    data = source.recv(65_536)
                    if not data:
                        return
                    if source is client:
                        server.sendall(data)
                        continue
                    with self._turn:
                        if self.is_moment():
                            self._answering.clear()
                    self._answering.wait()
                    client.sendall(data)


@contextmanager
def relay_to(dsn: str, folder: Path) -> Iterator[Relay]:
    """Give a relay to a database."""
    relay = Relay(dsn, folder)
    try:
        yield relay
    finally:
        relay.close()
