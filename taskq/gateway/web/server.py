"""Server of the pages: who may look, and what they look at."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import Callable
from typing import Final

import uvloop

from taskq.api.client import Client
from taskq.db.catalogue import all_statements
from taskq.diagnosis.shared_readings import Readings
from taskq.diagnosis.ticker import Ticker
from taskq.gateway.http.asgi import AsgiServing
from taskq.gateway.http.certificates import ServerCertificate
from taskq.gateway.http.clients import HttpClients, PlainCounters
from taskq.gateway.http.listening import Listening
from taskq.gateway.http.server import HttpServer
from taskq.gateway.web.access import Access
from taskq.gateway.web.acting import Acting
from taskq.gateway.web.app import SECRET, WebApp
from taskq.gateway.web.molecules import Drawer
from taskq.gateway.web.pages import Pages

log: Final = logging.getLogger(__name__)

#: Connections at a time; further ones are closed.
MOST_CONNECTIONS: Final = 1_000
#: Seconds for which a connection without requests is kept: strangers must not fill the places.
IDLE_S: Final = 10.0
#: Seconds that requests may go on at the end; live pages would go on for ever.
LAST_ANSWERS_S: Final = 1
_SECRET_BYTES: Final = 32


def serve(
    client: Client, listening: Listening, announce: Callable[[str], None], *, tokens: bool
) -> None:
    """Serve pages until SIGTERM or SIGINT.

    client: its database is anonymous, since errors are shown. announce: called with the URL, once
    it can be opened. tokens: whether viewers need a manager's token; else the URL has a secret.
    Raise `Unavailable` if it cannot listen there, `NotFound` or `UsageError` if something is wrong
    with the certificate.
    """
    all_statements()
    with listening.bind() as listener:
        url = listening.address(listener) + "/"
        certificate, secret, port = listening.certificate, None, 0
        if not tokens:
            secret, port = secrets.token_urlsafe(_SECRET_BYTES), listener.getsockname()[1]
            url += f"?{SECRET}={secret}"
        secure = certificate is not None
        access = Access(client.database, secret=secret, secure=secure, port=port)
        uvloop.run(_serve(client, listener, access, lambda: announce(url), certificate))


def serve_at(listener: socket.socket, client: Client, *, secure: bool, ends: int) -> None:
    """Serve pages to managers' tokens at a listening socket until a file ends, or as `serve`.

    secure: whether viewers come over TLS, which another server ends.
    """
    all_statements()
    access = Access(client.database, secret=None, secure=secure, port=0)
    uvloop.run(_serve(client, listener, access, lambda: None, None, ends=ends))


async def _serve(
    client: Client,
    listener: socket.socket,
    access: Access,
    ready: Callable[[], None],
    certificate: ServerCertificate | None,
    *,
    ends: int | None = None,
) -> None:
    ticker = Ticker(client.queries)
    drawer = Drawer()
    pages = Pages(client, ticker, Readings(), draws=drawer.can_draw)
    serving = AsgiServing(
        WebApp(pages, ticker, access, drawer, Acting(client.database)).asgi,
        lambda error: log.error("a page failed", exc_info=error),
    )
    clients = HttpClients(serving.serve, PlainCounters(), most=MOST_CONNECTIONS, idle_s=IDLE_S)
    server = HttpServer(clients, certificate, last_answers_s=LAST_ANSWERS_S)
    if ends is not None:
        asyncio.get_running_loop().add_reader(ends, server.end)
    try:
        await server.serve(listener, ready)
    finally:
        await ticker.close()
        await drawer.close()
