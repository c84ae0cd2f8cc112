"""Ways between two processes that the nemesis cuts, or lets fall silent."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

from tests.helpers.relay import Relay

Address = tuple[str, int] | str
"""A port of a host, or the path of a Unix socket."""


class FaultyRelay(Relay):
    """Passes bytes on, until it is cut or falls silent.

    Both strike where it hurts: an answer that is on its way does not arrive, so what was asked for
    has been done and nobody knows. Cut: its connection ends. Silent: the connection stays, and
    nothing more comes over it, until it ends at `heal`, as when a firewall has forgotten it.
    """

    def __init__(self, here: Address, there: Address) -> None:
        if isinstance(here, str):
            listener = socket.socket(socket.AF_UNIX)
            Path(here).unlink(missing_ok=True)
        else:
            listener = socket.socket(socket.AF_INET)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(here)
        listener.listen(128)
        super().__init__(listener)
        self._there = there
        self._whole = threading.Event()
        self._whole.set()
        self._silent = False
        self._count = threading.Lock()
        self.withheld = 0
        self.answered_at = 0.0

    def cut(self) -> None:
        """Let no answer arrive; its connection ends."""
        self._silent = False
        self._whole.clear()

    def silence(self) -> None:
        """Let no answer arrive; its connection stays until `heal`."""
        self._silent = True
        self._whole.clear()

    def heal(self) -> None:
        """Pass on what comes from now on; connections whose answer was withheld end."""
        self._whole.set()

    def close(self) -> None:
        """Close it, in whatever state it is."""
        self.heal()
        super().close()

    def connect(self) -> socket.socket:
        """Return a connection to the other end."""
        family = socket.AF_UNIX if isinstance(self._there, str) else socket.AF_INET
        server = socket.socket(family)
        try:
            server.connect(self._there)
        except OSError:
            server.close()
            raise
        return server

    def passes(self, _answer: bytes) -> bool:
        """Withhold an answer while the way is not whole."""
        self.answered_at = time.monotonic()
        if self._whole.is_set():
            return True
        with self._count:
            self.withheld += 1
        if self._silent:
            self._whole.wait()
        return False
