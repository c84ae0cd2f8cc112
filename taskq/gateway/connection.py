"""One client's connection: uvicorn's, with limits on what a client may do to us.

uvicorn bounds neither the time in which a request arrives, nor how long its head is, nor how many
requests come ahead of their answers, nor for how long an answer waits to be taken. Here all of that
is bounded; and what is no HTTP is refused in the form that all errors have.
"""

from __future__ import annotations

import asyncio
import math
import time
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final, NoReturn

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from taskq.gateway.errors import Failure
from taskq.gateway.service import Service

JSON: Final = b"application/json"
#: The head of a request must have arrived within so many seconds from its first byte; the first one
#: from the beginning of the connection. A body has more time, if it comes at some speed.
ARRIVAL_S: Final = 30.0
LEAST_BYTES_PER_S: Final = 8_192
#: A client must have taken something more of its answer within so many seconds.
TAKING_S: Final = 60.0
#: A connection without requests is kept for so long. Agents beat more often.
IDLE_S: Final = 150.0
MAX_HEAD_BYTES: Final = 32_768
#: Requests that a client may send ahead of their answers.
MOST_AHEAD: Final = 64

_REASONS: Final = {status.value: status.phrase.encode() for status in HTTPStatus}


class Connection(HttpToolsProtocol):
    """One connection. `deadline`: when to give the client up; inf while it waits for us."""

    def __init__(
        self,
        service: Service,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.service = service
        self.in_head = False
        self._unfit: Failure | None = None
        self._head_bytes = 0
        self._body_bytes = 0
        self._began = time.monotonic()
        self.deadline = self._began + ARRIVAL_S

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a client in, unless there are as many as can be."""
        super().connection_made(transport)  # type: ignore[arg-type]  # uvicorn's is narrower
        if len(self.connections) > self.service.settings.most_clients:
            self.service.metrics.slow += 1
            self.transport.abort()

    @property
    def is_busy(self) -> bool:
        """Whether a request is on its way, arriving or not yet answered."""
        cycle: Any = self.cycle  # which uvicorn says is never None
        return cycle is not None and not cycle.response_complete

    # What the parser finds

    def data_received(self, data: bytes) -> None:
        """Take what has arrived."""
        super().data_received(data)
        if self.in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                text = f"path and headers have {MAX_HEAD_BYTES} bytes at most"
                self._unfit = Failure(431, "malformed", text)
                self.send_400_response(text)

    def on_message_begin(self) -> None:
        """Begin to read a request; of most of them uvicorn need never know."""
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self.in_head = True
        self._head_bytes = self._body_bytes = 0
        self._began = time.monotonic()
        self.deadline = self._began + ARRIVAL_S

    def on_headers_complete(self) -> None:
        """Begin to serve a request."""
        self.in_head = False
        if self.parser.should_upgrade():
            self._break_off(400, "no other protocol is spoken here; leave Upgrade out")
        if len(self.pipeline) >= MOST_AHEAD:
            self._break_off(400, f"more than {MOST_AHEAD} requests ahead of their answers")
        url, headers, expect = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expect
        self.headers += headers
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body."""
        self.count_body(len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that a request is here in full."""
        self.arrived()
        super().on_message_complete()

    def count_body(self, size: int) -> int:
        """Give a body that comes the time that it may take; return its bytes so far."""
        self._body_bytes += size
        self.deadline = self._began + ARRIVAL_S + self._body_bytes / LEAST_BYTES_PER_S
        return self._body_bytes

    def arrived(self) -> None:
        """Note that it is our turn, unless the request was answered before it was here in full."""
        self.deadline = math.inf if self.is_busy else time.monotonic() + IDLE_S

    def _break_off(self, status: int, text: str) -> NoReturn:
        """Parse no further; uvicorn calls `send_400_response` then."""
        self._unfit = Failure(status, "malformed", text)
        raise ValueError(text)

    # What becomes of the connection

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, and end the connection; what was asked before is answered."""
        known = self._unfit or Failure(400, "malformed", msg)
        self.service.metrics.failures[known.code] += 1
        if self.is_busy and self.cycle.more_body:
            # It is this request that is no good; one before it, if there is one, is lost with it.
            if self.pipeline:
                self.transport.abort()
                return
        elif self.is_busy:
            self.cycle.keep_alive = False
            return
        if not self.transport.is_closing():
            self.send(known.status, known.body(), b"connection: close\r\n")
            self.transport.close()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        if not self.is_busy:
            self.deadline = time.monotonic() + IDLE_S

    def pause_writing(self) -> None:
        """Note that the client does not take what it has asked for."""
        super().pause_writing()
        self.deadline = time.monotonic() + TAKING_S

    def resume_writing(self) -> None:
        """Go on: it has taken some."""
        super().resume_writing()
        if self.is_busy:
            self.deadline = math.inf
        else:
            self.on_response_complete()

    def shutdown(self) -> None:
        """End soon, as the gateway does; at once if it is the client that we would wait for."""
        if self.is_busy and self.deadline < math.inf:
            self.transport.abort()
        else:
            super().shutdown()

    def send(self, status: int, body: bytes, extra: bytes = b"") -> None:
        """Write a whole answer. extra: further lines of its head."""
        head = _head(status, *self.server_state.default_headers)
        self.transport.write(b"%scontent-length: %d\r\n%s\r\n%s" % (head, len(body), extra, body))


@lru_cache(maxsize=64)
def _head(status: int, *common: tuple[bytes, bytes]) -> bytes:
    """Return the lines that the answers of a second share. common: what uvicorn always says."""
    lines = [b"HTTP/1.1 %d %s" % (status, _REASONS[status]), b"content-type: " + JSON]
    lines += [b"%s: %s" % line for line in common]
    return b"".join(line + b"\r\n" for line in lines)


def sweep(connections: set[Any], service: Service) -> None:
    """Cut the connections whose client has let us wait for too long."""
    now = time.monotonic()
    for connection in [one for one in connections if one.deadline < now]:
        service.metrics.slow += 1
        connection.transport.abort()
