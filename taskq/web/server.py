"""Server of the pages: a socket, uvicorn, an orderly end."""

from __future__ import annotations

import asyncio
import secrets
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvicorn

from taskq.api.client import Client
from taskq.db.catalogue import all_statements
from taskq.diagnosis.shared_readings import Readings
from taskq.diagnosis.ticker import Ticker
from taskq.model.errors import Unavailable, UsageError
from taskq.web.access import Access
from taskq.web.app import SECRET, WebApp
from taskq.web.molecules import Drawer
from taskq.web.pages import Pages

#: Connections that are served at a time; others get the answer that the server is too busy.
MOST_CONNECTIONS: Final = 1_000
BACKLOG: Final = 128
#: Seconds that requests may go on at the end; live pages would go on for ever.
LAST_ANSWERS_S: Final = 1
_SECRET_BYTES: Final = 32
_ENDING: Final = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class Site:
    """Where pages are served, and to whom.

    port 0: any free port. tokens: whether viewers need a manager's token; else the address has a
    secret. certificate, key: files in PEM; None means no TLS. behind_tls: whether another server
    ends TLS.
    """

    host: str
    port: int
    tokens: bool
    certificate: Path | None = None
    key: Path | None = None
    behind_tls: bool = False

    def bind(self) -> socket.socket:
        """Return a listening socket; raise `Unavailable` if the address cannot be used."""
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            family, _, _, _, address = found[0]
            listener = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            raise Unavailable(f"cannot listen at {self.host}: {error.strerror}") from None
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
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
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme = "http" if self.certificate is None else "https"
        return f"{scheme}://{host}:{listener.getsockname()[1]}/"


def serve(client: Client, site: Site, announce: Callable[[str], None]) -> None:
    """Serve pages until SIGTERM or SIGINT.

    client: its database is anonymous, since errors are shown. announce: called with the URL, once
    it can be opened; it has the secret, if there is one. Raise `Unavailable` if it cannot listen
    there, `UsageError` if something is wrong with the certificate.
    """
    all_statements()
    with site.bind() as listener:
        secret = None if site.tokens else secrets.token_urlsafe(_SECRET_BYTES)
        address = site.address(listener) + (f"?{SECRET}={secret}" if secret else "")
        asyncio.run(_serve(client, site, listener, lambda: announce(address), secret=secret))


def serve_at(listener: socket.socket, client: Client, site: Site, *, ends: int) -> None:
    """Serve pages with tokens at a listening socket, as `serve`, but at most until a file ends."""
    all_statements()
    asyncio.run(_serve(client, site, listener, lambda: None, secret=None, ends=ends))


async def _serve(
    client: Client,
    site: Site,
    listener: socket.socket,
    ready: Callable[[], None],
    *,
    secret: str | None,
    ends: int | None = None,
) -> None:
    ticker = Ticker(client.queries)
    secure = site.certificate is not None or site.behind_tls
    port = 0 if secret is None else listener.getsockname()[1]
    access = Access(client.database, secret=secret, secure=secure, port=port)
    drawer = Drawer()
    pages = Pages(client, ticker, Readings(), draws=drawer.can_draw)
    app = WebApp(pages, ticker, access, drawer)
    config = uvicorn.Config(
        app.asgi,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=LAST_ANSWERS_S,
        ssl_certfile=site.certificate,
        ssl_keyfile=site.key,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"{site.certificate} and {site.key} cannot be used: {error}") from None
    server = _Server(config, ready)
    if ends is not None:
        asyncio.get_running_loop().add_reader(ends, server.end)
    try:
        await server.serve([listener])
    finally:
        await ticker.close()
        await drawer.close()


class _Server(uvicorn.Server):
    """uvicorn that ends with exit code 0 on a signal, and says when it can be reached."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals in place of uvicorn, which would raise them again at its end."""
        loop = asyncio.get_running_loop()
        for number in _ENDING:
            loop.add_signal_handler(number, self.end)
        try:
            yield
        finally:
            for number in _ENDING:
                loop.remove_signal_handler(number)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept clients."""
        await super().startup(sockets)
        self._ready()

    def end(self) -> None:
        """End soon."""
        self.should_exit = True
