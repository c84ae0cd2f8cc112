"""Settings of a gateway, with their default values, and its TLS certificate, which can change."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from taskq.front.address import FrontAddress
from taskq.model.errors import NotFound, UsageError

#: Connections for exchanges; a fourth one made a gateway slower on two cores.
CONNECTIONS: Final = 3


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a gateway.

    lease_s: seconds of silence after which an agent's tasks are handed out again. gateways: the
    addresses of all gateways, for agents to choose from. connections: connections to the database
    for exchanges. most_clients: most connections of clients, so that file descriptors are left.
    front: the Redis server of the front; None if there is no front.
    """

    lease_s: float = 120.0
    gateways: tuple[str, ...] = ()
    connections: int = CONNECTIONS
    most_clients: int = 1_000_000
    front: FrontAddress | None = None


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """The files of a certificate with its intermediates (`chain`), and of its private key."""

    chain: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """Return a server's context: TLS 1.2 and later; raise `NotFound` or `UsageError`."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        self.load(context)
        return context

    def load(self, context: ssl.SSLContext) -> None:
        """Load the files as they are now, for all later connections."""
        try:
            context.load_cert_chain(self.chain, self.key)
        except ssl.SSLError as error:
            why = error.reason or error.strerror  # no reason where there is no PEM at all
            raise UsageError(
                f"{self.chain} and {self.key} are no certificate and its key in PEM: {why}"
            ) from None
        except OSError as error:
            raise NotFound(f"{self.chain} or {self.key}: {error.strerror}") from None

    def stamp(self) -> tuple[float, float]:
        """Return the modification times of the files, zeros if one is missing."""
        try:
            return self.chain.stat().st_mtime, self.key.stat().st_mtime
        except OSError:  # it may be in the middle of a replacement
            return 0.0, 0.0
