"""Connection of one HTTP client: uvicorn's protocol, with limits on what a client can cost.

uvicorn does not bound how long a request takes to arrive, how large its head is, how many requests
come ahead of their answers, what is read after a refusal, or how long an answer waits to be taken.
This module bounds all of that, and answers data that are not HTTP with an error in the common form.
tests/unit/test_uvicorn_parts.py names the private parts of uvicorn that it relies on.
"""

from __future__ import annotations

import asyncio
import math
import time
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final, NoReturn
from urllib.parse import unquote

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from taskq.gateway.errors import ErrorAnswer, TooSlow, failure
from taskq.gateway.handshakes import LINGER_BYTES, LINGER_S, half_close
from taskq.gateway.service import Service

#: Seconds for the head of a request to arrive, from its first byte; for the first request, from the
#: start of the connection. A body has more time, if it comes at `LEAST_BYTES_PER_S`.
ARRIVAL_S: Final = 30.0
LEAST_BYTES_PER_S: Final = 8_192
#: Seconds within which a client must take more of its answer.
TAKING_S: Final = 60.0
#: Seconds for which a connection without requests is kept. Agents send heartbeats more often.
IDLE_S: Final = 150.0
MAX_HEAD_BYTES: Final = 32_768
#: Requests that a client may send ahead of their answers.
MOST_AHEAD: Final = 64

_CONTENT: Final = b"content-type: application/json\r\ncontent-length: %d\r\n"
_TOO_LONG: Final = f"path and headers have {MAX_HEAD_BYTES} bytes at most"
_REASONS: Final = {status.value: status.phrase.encode() for status in HTTPStatus}


class Cycle(RequestResponseCycle):
    """One request that is answered by the application.

    A request that is answered before it has arrived in full ends its connection: the rest is not
    worth reading, and a client that expects `100 Continue` may never send it.
    """

    async def send(self, message: Any) -> None:
        """Send a part of the answer."""
        if self.more_body and not self.response_started:
            self.keep_alive = False
        await super().send(message)


class ClientConnection(HttpToolsProtocol):
    """One connection. `deadline`: when to give up the client; inf while the client waits for us.

    It is the transport of its request cycles, so that they end the connection in the right way.
    """

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
        # The request being answered; later ones wait in `pipeline`, and `cycle` is the last one.
        self.running: Any = None
        self._refusal: ErrorAnswer | None = None
        # An error to be sent when all earlier requests are answered; later data are not parsed.
        self._final_error: ErrorAnswer | None = None
        # Bytes still to be read and discarded before the end; None if the connection is not ending.
        self._linger_left: int | None = None
        self._in_request = False  # a request has begun and not arrived in full
        self._begun = 0  # requests that began in the latest data
        self._is_large = False  # the latest data may hold a head that is too long
        self._head_bytes = self._body_bytes = self._frame_bytes = 0
        self._began = time.monotonic()
        self.deadline = self._began + ARRIVAL_S

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a client, unless there are too many."""
        super().connection_made(transport)  # type: ignore[arg-type]  # uvicorn's is narrower
        if len(self.connections) > self.service.settings.most_clients:
            self.service.metrics.slow += 1
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Mark the request being answered as disconnected."""
        super().connection_lost(exc)
        self.pipeline.clear()
        running = self.running
        if running is not None and not running.response_complete:
            running.disconnected = True
            running.message_event.set()

    @property
    def is_busy(self) -> bool:
        """Whether a request is arriving or not yet answered."""
        running = self.running
        return running is not None and not running.response_complete

    # Events of the parser

    def data_received(self, data: bytes) -> None:
        """Parse data that have arrived."""
        if self._linger_left is not None:
            self._linger_left -= len(data)
            if self._linger_left < 0:
                self.transport.abort()
            return
        if self._final_error is not None:
            self.flow.pause_reading()
            return
        was_in_request, self._begun, body_bytes = self._in_request, 0, self._body_bytes
        self._is_large = len(data) > MAX_HEAD_BYTES
        try:
            self.parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.refuse(self._refusal or ErrorAnswer(400, "malformed", "not an HTTP request"))
            return
        if self._in_request and self._begun + was_in_request == 1:
            self._count_frame(len(data), body_bytes)

    def _count_frame(self, size: int, body_before: int) -> None:
        """Bound the bytes of a request outside its body: head, chunk framing, trailer.

        size: bytes of data that belong to one request only.
        """
        if self.in_head:
            self._head_bytes += size
            if self._head_bytes > MAX_HEAD_BYTES:
                self.refuse(ErrorAnswer(431, "malformed", _TOO_LONG))
            return
        if not self._begun:
            self._frame_bytes += size - (self._body_bytes - body_before)
            if self._frame_bytes > MAX_HEAD_BYTES + 8 * self._body_bytes:
                self.refuse(ErrorAnswer(431, "malformed", "chunks with more framing than content"))

    def on_message_begin(self) -> None:
        """Begin to read a request, without uvicorn's own preparations."""
        if self.is_closing():
            raise ValueError("nothing more is read")
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self.in_head = self._in_request = True
        self._begun += 1
        self._head_bytes = self._body_bytes = self._frame_bytes = 0
        if not self.is_busy:
            self._expect()

    def _expect(self) -> None:
        """Start the time limit of an arriving request now."""
        self._began = time.monotonic()
        self.deadline = self._began + ARRIVAL_S

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a line of the head; ignore trailer lines after a body."""
        if not self.in_head:
            return
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def end_head(self) -> None:
        """Check the size of a head that has arrived in full; break off if it is too long."""
        self.in_head = False
        if not (self._is_large or self._head_bytes):
            return
        size = len(self.url) + sum([len(name) + len(value) + 4 for name, value in self.headers])
        if size > MAX_HEAD_BYTES:
            self._break_off(431, _TOO_LONG)

    def on_headers_complete(self) -> None:
        """Begin to serve a request."""
        self.end_head()
        if self.parser.should_upgrade():
            self._break_off(400, "only HTTP is spoken here; leave Upgrade out")
        if len(self.pipeline) >= MOST_AHEAD:
            text = f"more than {MOST_AHEAD} requests ahead of their answers; ask again"
            self._refusal = ErrorAnswer(429, "busy", text)
            raise ValueError(text)
        cycle = self._cycle()
        self.cycle = cycle
        if self.is_busy:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))
        else:
            self._serve(cycle)

    def _cycle(self) -> Cycle:
        headers, version = self.headers, self.parser.get_http_version()
        url = httptools.parse_url(self.url)
        path = url.path.decode("ascii")
        return Cycle(
            scope={
                "type": "http",
                "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
                "http_version": version,
                "server": self.server,
                "client": self.client,
                "scheme": self.scheme,  # type: ignore[typeddict-item]  # never None
                "root_path": self.root_path,
                "headers": headers,
                "state": self.app_state.copy(),
                "method": self.parser.get_method().decode("ascii"),
                "path": self.root_path + (unquote(path) if "%" in path else path),
                "raw_path": self.root_path.encode("ascii") + url.path,
                "query_string": url.query or b"",
            },
            transport=self,  # type: ignore[arg-type]  # has all that it uses
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version != "1.0" and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )

    def _serve(self, cycle: Any) -> None:
        self.running = cycle
        task = self.loop.create_task(cycle.run_asgi(self.app))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body."""
        self.count_body(len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that a request has arrived in full."""
        self.arrived()
        super().on_message_complete()

    def count_body(self, size: int) -> int:
        """Extend the deadline for a body that arrives; return its bytes so far."""
        self._body_bytes += size
        if self.running is self.cycle:  # else earlier requests come first, and reading pauses
            self.deadline = self._began + ARRIVAL_S + self._body_bytes / LEAST_BYTES_PER_S
        return self._body_bytes

    def arrived(self) -> None:
        """Note that a request has arrived in full: the client waits for us now."""
        self._in_request = False
        self.deadline = math.inf

    def _break_off(self, status: int, text: str) -> NoReturn:
        """Stop parsing, and refuse the request."""
        self._refusal = ErrorAnswer(status, "malformed", text)
        raise ValueError(text)

    # Refusals and the end of the connection

    def refuse(self, known: ErrorAnswer) -> None:
        """Refuse the request that is arriving, and all after it.

        Earlier requests are answered first, then the error is sent, and the connection ends.
        """
        if self._final_error is not None or self.is_closing():
            return
        self.service.metrics.failures[known.code] += 1
        self._final_error = known
        arriving: Any = self.cycle  # uvicorn declares that it is never None
        if arriving is not None and arriving.more_body:
            if self.pipeline:
                self.pipeline.popleft()
                self.cycle = self.pipeline[0][0] if self.pipeline else self.running
            else:
                self.running = None
                arriving.disconnected = True
                arriving.message_event.set()
                if getattr(arriving, "response_started", False):
                    self.transport.abort()
                    return
        if self.is_busy:
            self.deadline = math.inf
        else:
            self._send_final_error()

    def give_up(self) -> None:
        """Cut a client whose deadline has passed; send an error if it has begun a request."""
        can_answer = self._in_request and not self.flow.write_paused and self._final_error is None
        if can_answer and not self.is_closing():
            self.refuse(failure(TooSlow()))
        else:
            self.transport.abort()

    def _send_final_error(self) -> None:
        known = self._final_error
        if known is not None and not self.is_closing():
            self.send(known.status, known.body(), b"connection: close\r\n")
            self._linger()

    def on_response_complete(self) -> None:
        """Serve the next request of the pipeline, or wait for one."""
        self.server_state.total_requests += 1
        if self.is_closing():
            return
        if self.pipeline:
            self._serve(self.pipeline.pop()[0])
        elif self._final_error is not None:
            self._send_final_error()
            return
        if self._in_request and self.running is self.cycle:
            self._expect()
        elif not (self.is_busy or self.flow.write_paused):
            self.deadline = time.monotonic() + IDLE_S
        self.flow.resume_reading()

    def pause_writing(self) -> None:
        """Note that the client does not take its answer."""
        super().pause_writing()
        self.deadline = time.monotonic() + TAKING_S

    def resume_writing(self) -> None:
        """Resume: the client has taken some of its answer."""
        super().resume_writing()
        if self._linger_left is not None:
            self.deadline = time.monotonic() + LINGER_S
        elif self.is_busy:
            self.deadline = math.inf
        else:
            self.on_response_complete()

    def shutdown(self) -> None:
        """End after the current answer; at once if the client would have to act first."""
        if self._linger_left is not None or (self.is_busy and self.deadline < math.inf):
            self.transport.abort()
        elif self.is_busy:
            self.cycle.keep_alive = False
        else:
            self.transport.close()

    # As a transport

    def send(self, status: int, body: bytes, extra: bytes = b"") -> None:
        """Write a whole answer. extra: further lines of its head."""
        head = _head(status, *self.server_state.default_headers)
        content = b"" if status == HTTPStatus.NO_CONTENT else _CONTENT % len(body)
        self.transport.write(b"%s%s%s\r\n%s" % (head, content, extra, body))

    def write(self, data: bytes) -> None:
        """Write a part of an answer, unless the connection is closing."""
        if not self.is_closing():
            self.transport.write(data)

    def is_closing(self) -> bool:
        """Return whether nothing more can be written."""
        return self._linger_left is not None or self.transport.is_closing()

    def close(self) -> None:
        """End the connection so that the client gets its answer, whatever it still sends."""
        if self.is_closing():
            return
        if self._in_request or self.pipeline:
            self._linger()
        else:
            self.deadline = time.monotonic() + TAKING_S
            self.transport.close()

    def _linger(self) -> None:
        """Half-close and read a little more, so that the kernel does not discard the answer."""
        self.pipeline.clear()
        self._linger_left = LINGER_BYTES
        waits_s = TAKING_S if self.flow.write_paused else LINGER_S
        self.deadline = time.monotonic() + waits_s
        half_close(self.transport)
        self.flow.resume_reading()


@lru_cache(maxsize=64)
def _head(status: int, *common: tuple[bytes, bytes]) -> bytes:
    """Return the first lines of an answer; cached. common: headers that uvicorn always sends."""
    lines = [b"HTTP/1.1 %d %s" % (status, _REASONS[status]), *(b"%s: %s" % one for one in common)]
    return b"".join(line + b"\r\n" for line in lines)


def sweep(connections: set[Any], service: Service) -> None:
    """Cut the connections whose deadline has passed."""
    now = time.monotonic()
    for connection in [one for one in connections if one.deadline < now]:
        service.metrics.slow += 1
        connection.give_up()
