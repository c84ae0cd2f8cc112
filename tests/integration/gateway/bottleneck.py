"""A way to a gateway that lets just so much through, so that transfers break where a test wants."""

from __future__ import annotations

import socket
import threading

from tests.helpers.relay import Relay


class Bottleneck(Relay):
    """Passes bytes on; of answers no more than `most`, then everything stands still.

    carried: bytes of answers that were passed on. stuck: set when it stands still. most may be
    changed at any time before. TLS goes through as it is.
    """

    def __init__(self, port: int, most: float) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        super().__init__(listener)
        self._target = ("127.0.0.1", port)
        self.url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        self.most = most
        self.carried = 0
        self.stuck = threading.Event()

    def connect(self) -> socket.socket:
        """Return a connection to the gateway."""
        return socket.create_connection(self._target)

    def passes(self, answer: bytes) -> bool:
        """Let so much through; then hold all."""
        if self.carried >= self.most:
            self.stuck.set()
            self._ended.wait()
            return False
        self.carried += len(answer)
        return True
