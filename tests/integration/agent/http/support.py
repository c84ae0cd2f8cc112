"""An agent's transport over HTTP, and what it says first."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from taskq_agent.http.connections import Dialer
from taskq_agent.http.gateways import GatewayList
from taskq_agent.http.transport import HttpTransport
from taskq_agent.protocol import Hello
from tests.helpers.memory_gateway import TOKEN, HttpGateway

HELLO = Hello("00000000-0000-7000-8000-000000000001", "/test", "agent", "host", 1, "site", 1, "0")
BLOB = bytes(range(256)) * 4_000
DIGEST = hashlib.sha256(BLOB).hexdigest()


@contextmanager
def agent_of(*gateways: HttpGateway, token: str = TOKEN) -> Iterator[HttpTransport]:
    """Provide a transport that likes the gateways in this order."""
    places = itertools.count(1)
    urls = [gateway.url for gateway in gateways]
    known = GatewayList(urls, uniform=lambda: next(places) / 100)
    with HttpTransport(known, token, Dialer()) as transport:
        yield transport
