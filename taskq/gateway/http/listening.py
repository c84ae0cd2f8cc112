"""Address at which a server listens."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Final

from taskq.gateway.http.certificates import ServerCertificate
from taskq.model.errors import Unavailable

BACKLOG: Final = 4_096


@dataclass(frozen=True, slots=True)
class Listening:
    """The address at which a server listens.

    port 0: any free port. shared: other processes may listen there too (SO_REUSEPORT), and the
    kernel spreads the connections. proxies: addresses of proxies that are trusted to name a
    request's client.
    """

    host: str = "127.0.0.1"
    port: int = 8443
    shared: bool = False
    certificate: ServerCertificate | None = None
    proxies: tuple[str, ...] = ()

    def bind(self) -> socket.socket:
        """Return a listening socket; raise `Unavailable` if the address cannot be used."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if self.shared:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.bind((self.host, self.port))
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            raise Unavailable(
                f"cannot listen at {self.host} port {self.port}: {error.strerror}"
            ) from None
        listener.setblocking(False)
        return listener

    def address(self, listener: socket.socket) -> str:
        """Return the URL of a listening socket."""
        scheme = "http" if self.certificate is None else "https"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{listener.getsockname()[1]}"
