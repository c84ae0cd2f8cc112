"""TLS certificates for the servers and clients of tests, from an authority of their own."""

from __future__ import annotations

import ssl
from datetime import datetime, timedelta
from pathlib import Path

import trustme

NAME = "gateway.test"


class Certificates:
    """An authority in a folder. ca: its certificate; client: a certificate with its key."""

    def __init__(self, folder: Path) -> None:
        self._authority = trustme.CA()
        self.ca = folder / "ca.pem"
        self._authority.cert_pem.write_to_path(str(self.ca))
        self.client = folder / "client.pem"
        self._authority.issue_cert("agent.test").private_key_and_cert_chain_pem.write_to_path(
            str(self.client)
        )

    def server(
        self, *names: str, clients_only: bool = False, ended: datetime | None = None
    ) -> ssl.SSLContext:
        """Return the TLS context of a server.

        clients_only: it requires our client certificate. ended: when its own ceased to be valid.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate = self._authority.issue_cert(
            *(names or ("127.0.0.1", NAME)),
            not_before=ended and ended - timedelta(days=1),
            not_after=ended,
        )
        certificate.configure_cert(context)
        if clients_only:
            context.verify_mode = ssl.CERT_REQUIRED
            self._authority.configure_trust(context)
        return context
