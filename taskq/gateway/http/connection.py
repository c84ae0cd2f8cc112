"""Connection of one HTTP client: its requests in order, and limits on what they can cost.

llhttp parses. This module bounds how long a request takes to arrive, how large its head is, how
many requests come ahead of their answers, what is read after a refusal, and how long an answer
waits to be taken. It answers data that are not HTTP with an error in the common form.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from http import HTTPStatus
from typing import Any, Final, NoReturn

import httptools

from taskq.gateway.http.clients import HttpClients
from taskq.gateway.http.errors import Busy, ErrorAnswer, retry_after_s
from taskq.gateway.http.flow import (
    HIGH_WATER_BYTES,
    LOW_WATER_BYTES,
    PIECE_BYTES,
    Flow,
    UntakenAnswer,
)
from taskq.gateway.http.framing import (
    MAX_HEAD_BYTES,
    TOO_LONG,
    RequestSizes,
    head_fault,
    is_too_long,
)
from taskq.gateway.http.lingering import LINGER_BYTES, LINGER_S, half_close
from taskq.gateway.http.request import ClientRequest

#: Seconds for the head of a request to arrive, from its first byte; for the first request, from the
#: start of the connection. A body has more time, if it comes at `LEAST_BYTES_PER_S`.
ARRIVAL_S: Final = 30.0
LEAST_BYTES_PER_S: Final = 8_192
#: Seconds within which a client must take more of its answer.
TAKING_S: Final = 60.0
#: Requests that a client may send ahead of their answers.
MOST_AHEAD: Final = 64


_TOO_SLOW: Final = ErrorAnswer(408, "too_slow", "The request did not arrive in time.")
_CLOSE: Final = b"connection: close\r\n"
_STATUS_LINES: Final = {
    status.value: b"HTTP/1.1 %d %s\r\n" % (status, status.phrase.encode()) for status in HTTPStatus
}


class HttpConnection(asyncio.Protocol):
    """One connection. `deadline`: when to give up the client; inf while the client waits for us.

    address: the client's, as it connects; empty at a Unix socket. memo: what the application
    remembers with the connection.
    """

    def __init__(self, clients: HttpClients) -> None:
        self.clients = clients
        self.client_bytes = clients.bytes
        self.proxies = clients.proxies
        self.spawn = clients.spawn
        self.address = ""
        self.memo: Any = None
        self._loop = asyncio.get_running_loop()
        self._parser: Any = httptools.HttpRequestParser(self)
        # What a client sends behind its last request is left out when that is answered.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        # The request being answered, the latest one, and those in between, in their order.
        self._running: ClientRequest | None = None
        self._latest: ClientRequest | None = None
        self._pipeline: deque[ClientRequest] = deque()
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._in_head = False
        self._in_request = False  # a request has begun and not arrived in full
        self._begun = 0  # requests that began in the latest data
        self._is_large = False  # the latest data may hold a head that is too long
        self._sizes = RequestSizes()
        self._refusal: ErrorAnswer | None = None
        # An error to be sent when all earlier requests are answered; later data are not parsed.
        self._final_error: ErrorAnswer | None = None
        # Bytes still to be read and discarded before the end; None if the connection is not ending.
        self._linger_left: int | None = None
        self._began = time.monotonic()
        self.deadline = self._began + ARRIVAL_S

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a client, unless there are too many."""
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]  # of a stream
        self.abort = self.transport.abort
        self.flow = Flow(self.transport)
        self.transport.set_write_buffer_limits(HIGH_WATER_BYTES, LOW_WATER_BYTES)
        peer = transport.get_extra_info("peername")
        self.is_encrypted = transport.get_extra_info("sslcontext") is not None
        self.address = str(peer[0]) if isinstance(peer, tuple) else ""
        self.untaken = UntakenAnswer(self.flow, self.client_bytes.untaken, self.address)
        self.clients.connections.add(self)
        if len(self.clients.connections) > self.clients.most:
            self.clients.counters.slow += 1
            self.abort()

    def connection_lost(self, _: Exception | None) -> None:
        """Forget what was for the client."""
        self.clients.connections.discard(self)
        self._parser = None  # which refers to this object
        self._pipeline.clear()
        self._leave()
        self.flow.resume_writing()
        self.untaken.release()

    def eof_received(self) -> None:
        """End the connection of a client that has closed its direction."""
        self._leave()
        self.deadline = min(self.deadline, time.monotonic() + TAKING_S)

    def _leave(self) -> None:
        """Note that the client of the request being answered is gone."""
        if self._running is not None and self._running.leave():
            self.clients.counters.abandoned += 1

    @property
    def is_busy(self) -> bool:
        """Whether a request is arriving or not yet answered."""
        return self._running is not None and not self._running.is_answered

    # Events of the parser

    def data_received(self, data: bytes) -> None:
        """Parse data that have arrived."""
        if self._linger_left is not None:
            self._linger_left -= len(data)
            if self._linger_left < 0:
                self.abort()
            return
        if self._final_error is not None:
            self.flow.pause_reading()
            return
        was_in_request, self._begun, body_bytes = self._in_request, 0, self._sizes.body
        self._is_large = len(data) > MAX_HEAD_BYTES
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.refuse(self._refusal or ErrorAnswer(400, "malformed", "not an HTTP request"))
            return
        is_of_one = self._in_request and self._begun + was_in_request == 1
        if is_of_one and (self._in_head or not self._begun):
            size = len(data)
            if fault := self._sizes.frame_fault(size, body_bytes, in_head=self._in_head):
                self.refuse(ErrorAnswer(431, "malformed", fault))

    def on_message_begin(self) -> None:
        """Begin to read a request."""
        if self.is_closing():
            raise ValueError("nothing more is read")
        self._url = b""
        self._headers = []
        self._in_head = self._in_request = True
        self._begun += 1
        self._sizes.begin()
        running = self._running
        if running is None or running.is_answered:
            self._expect()

    def _expect(self) -> None:
        """Start the time limit of an arriving request now."""
        self._began = time.monotonic()
        self.deadline = self._began + ARRIVAL_S

    def on_url(self, url: bytes) -> None:
        """Keep a part of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a line of the head; ignore trailer lines after a body."""
        if self._in_head:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Take a request in, and begin to serve it, unless its body comes first."""
        self._in_head = False
        url, headers, parser, running = self._url, self._headers, self._parser, self._running
        if (self._is_large or self._sizes.head) and is_too_long(url, headers):
            self._break_off(431, TOO_LONG)
        version, fields = parser.get_http_version(), dict(headers)
        if (fault := head_fault(version, url, headers, fields)) is not None:
            self._break_off(400, fault)
        if parser.should_upgrade():
            self._break_off(400, "only HTTP is spoken here; leave Upgrade out")
        # One that is answered at once leaves the pipeline, but others came with it all the same.
        if len(self._pipeline) >= MOST_AHEAD or self._begun > MOST_AHEAD + 1:
            text = f"more than {MOST_AHEAD} requests ahead of their answers; ask again"
            self._break_off(429, text, code="busy")
        keep_alive = version != "1.0" and parser.should_keep_alive()
        request = ClientRequest(
            self, parser.get_method(), url, version, headers, fields, keep_alive
        )
        self._latest = request
        if running is not None and not running.is_answered:
            self.flow.pause_reading()
            self._pipeline.append(request)
        else:
            self._running = request
            if not request.is_small:
                self._serve(request)

    def _serve(self, request: ClientRequest) -> None:
        """Serve a request, once; a small one when it has arrived in full."""
        if not (request.begun or request.is_gone or (request.is_small and request.more_body)):
            request.begun = True
            self.clients.serve(request)

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body."""
        self._sizes.body += len(body)
        request = self._latest
        if request is None:
            return
        if request is self._running:  # else earlier requests come first, and reading pauses
            self.deadline = self._began + ARRIVAL_S + self._sizes.body / LEAST_BYTES_PER_S
        if request.arrived(body) > HIGH_WATER_BYTES:
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        """Note that a request has arrived in full: the client waits for us now."""
        self._in_request = False
        self.deadline = math.inf
        request = self._latest
        if request is not None:
            request.ended()
            if request is self._running:
                self._serve(request)

    def _break_off(self, status: int, text: str, code: str = "malformed") -> NoReturn:
        """Stop parsing, and refuse the request."""
        self._refusal = ErrorAnswer(status, code, text)
        raise ValueError(text)

    # Refusals and the end of the connection

    def refuse(self, known: ErrorAnswer) -> None:
        """Refuse the request that is arriving, and all after it.

        Earlier requests are answered first, then the error is sent, and the connection ends.
        """
        if self._final_error is not None or self.is_closing():
            return
        self.clients.counters.failures[known.code] += 1
        self._final_error = known
        arriving = self._latest
        if arriving is not None and arriving.more_body:
            if self._pipeline:
                self._pipeline.pop()
                self._latest = self._pipeline[-1] if self._pipeline else self._running
            else:
                self._running = None
                arriving.leave()
                if arriving.has_answer_begun:
                    self.abort()
                    return
        if self.is_busy:
            self.deadline = math.inf
        else:
            self._send_final_error()

    def turn_away(self) -> None:
        """Refuse the request whose body is arriving; its client has to come again."""
        after_s = retry_after_s(len(self.clients.connections))
        self.refuse(ErrorAnswer(503, "busy", str(Busy()), retry=True, after_s=after_s))

    def give_up(self) -> None:
        """Cut a client whose deadline has passed; send an error if it has begun a request."""
        can_answer = self._in_request and not self.flow.is_paused and self._final_error is None
        if can_answer and not self.is_closing():
            self.refuse(_TOO_SLOW)
        else:
            self.abort()

    def _send_final_error(self) -> None:
        known = self._final_error
        if known is not None and not self.is_closing():
            self.write_whole(known.status, known.lines(), known.body(), keep=False)
            self._linger()

    def shutdown(self) -> None:
        """End after the current answer; at once if the client would have to act first."""
        if self._linger_left is not None or (self.is_busy and self.deadline < math.inf):
            self.abort()
        elif self._latest is not None and self.is_busy:
            self._latest.keep_alive = False
        else:
            self.transport.close()

    # The client takes its answer

    def pause_writing(self) -> None:
        """Note that the client does not take its answer."""
        self.flow.pause_writing()
        self.deadline = time.monotonic() + TAKING_S
        self.untaken.count()

    def resume_writing(self) -> None:
        """Resume: the client has taken some of its answer."""
        self.flow.resume_writing()
        self.untaken.count()
        if self._linger_left is not None:
            self.deadline = time.monotonic() + LINGER_S
        elif self.is_busy:
            self.deadline = math.inf
        else:
            self._next()

    # For requests

    def write_whole(
        self, status: int, lines: bytes, body: bytes, *, keep: bool, has_body: bool = True
    ) -> None:
        """Write a whole answer. keep: whether requests may follow; else its head says so."""
        size = len(body)
        if size > PIECE_BYTES:
            self.untaken.whole = size
        close, sent = b"" if keep else _CLOSE, body if has_body else b""
        self.write(
            b"%s%s%scontent-length: %d\r\n%s\r\n%s"
            % (_STATUS_LINES[status], self.clients.common, lines, size, close, sent)
        )
        if size > PIECE_BYTES:
            self.untaken.count()

    def write_head(self, status: int, lines: bytes, *, keep: bool) -> None:
        """Write the head of an answer."""
        close = b"" if keep else _CLOSE
        self.write(b"%s%s%s%s\r\n" % (_STATUS_LINES[status], self.clients.common, lines, close))

    def write(self, data: bytes) -> None:
        """Write a part of an answer, unless the connection is closing."""
        if not self.is_closing():
            self.transport.write(data)

    def answered(self, *, keep: bool) -> None:
        """Serve the next request of the pipeline, or wait for one; or end the connection."""
        if not keep:
            self.close()
        elif self.flow.is_paused:
            self.flow.pause_reading()  # until the client has taken its answers
        elif self._pipeline or self._in_request or self._final_error is not None:
            self._next()
        else:
            self.deadline = time.monotonic() + self.clients.idle_s
            if not self.flow.reads:
                self.flow.resume_reading()

    def _next(self) -> None:
        """Serve the next request, send the last error, or wait for what has begun."""
        if self.is_closing():
            return
        if self._pipeline:
            self._running = self._pipeline.popleft()
            # Later, as one that is answered at once would call this method again.
            self._loop.call_soon(self._serve, self._running)
        elif self._final_error is not None:
            self._send_final_error()
            return
        if self._in_request and self._running is self._latest:
            self._expect()
        elif not self.is_busy:
            self.deadline = time.monotonic() + self.clients.idle_s
        self.flow.resume_reading()

    def is_closing(self) -> bool:
        """Return whether nothing more can be written."""
        return self._linger_left is not None or self.transport.is_closing()

    def close(self) -> None:
        """End the connection so that the client gets its answer, whatever it still sends."""
        if self.is_closing():
            return
        if self._in_request or self._pipeline:
            self._linger()
        else:
            self.deadline = time.monotonic() + TAKING_S
            self.transport.close()

    def _linger(self) -> None:
        """Half-close and read a little more, so that the kernel does not discard the answer."""
        self._pipeline.clear()
        self._linger_left = LINGER_BYTES
        waits_s = TAKING_S if self.flow.is_paused else LINGER_S
        self.deadline = time.monotonic() + waits_s
        half_close(self.transport)
        self.flow.resume_reading()
