"""A way between a gateway and its database that a test can hold up."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.helpers.relay import Relay


class DatabaseRelay(Relay):
    """Passes bytes on in both directions, until an answer comes while `is_moment` is true.

    It is then held, and all that follow, until `answer` is called: the statement has been committed
    and nobody knows. dsn: how to reach the database through the relay.
    """

    def __init__(self, dsn: str, folder: Path) -> None:
        known = conninfo_to_dict(dsn)
        port = known["port"]
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(folder / f".s.PGSQL.{port}"))
        listener.listen()
        super().__init__(listener)
        self._target = f"{known['host']}/.s.PGSQL.{port}"
        self.dsn = make_conninfo(dsn, host=str(folder))
        self.is_moment: Callable[[], bool] = lambda: False
        # Nobody lets answers go between somebody else's look at the moment and its holding them.
        self._turn = threading.Lock()
        self._answering = threading.Event()
        self._answering.set()

    @property
    def holds(self) -> bool:
        """Whether an answer is held."""
        return not self._answering.is_set()

    def answer(self) -> None:
        """Pass on what was held, and all that follows."""
        with self._turn:
            self.is_moment = lambda: False
            self._answering.set()

    def close(self) -> None:
        """Hold nothing any more, and cut all connections."""
        self.answer()
        super().close()

    def connect(self) -> socket.socket:
        """Return a connection to the database."""
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._target)
        return server

    def passes(self, _answer: bytes) -> bool:
        """Hold answers from the moment on."""
        with self._turn:
            if self.is_moment():
                self._answering.clear()
        self._answering.wait()
        return True
