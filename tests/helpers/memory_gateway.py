"""A small gateway on real sockets: the protocol over HTTP, in front of a queue in memory."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from taskq_agent.errors import SessionLost
from taskq_agent.protocol import (
    ANSWER_HEADER,
    NO_ORDERS,
    PROTOCOL,
    Answer,
    Heartbeat,
    Hello,
    Request,
)
from taskq_agent.wire import decoded, dumps
from tests.helpers.memory_queue import MemoryQueue

TOKEN = "tqe_of-the-site"  # noqa: S105 - for tests

_POLL_S = 0.01


class Reply(NamedTuple):
    """Reply that is sent instead. hang_up: close at once; without a status, send nothing.

    afterwards: returns unsolicited bytes, which are sent after the reply. own: a gateway sends it,
    not something on the way.
    """

    status: int = 0
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    hang_up: bool = False
    afterwards: Callable[[], bytes] = bytes
    own: bool = True


class SeenRequest(NamedTuple):
    """A request that was received: peer, method, path and token."""

    peer: tuple[str, int]
    method: str
    path: str
    token: str


def error(status: int, code: str, **headers: str) -> Reply:
    """Return an error reply in the form of the protocol."""
    body = json.dumps({"error": {"code": code, "message": f"it is {code}"}}).encode()
    return Reply(status, body, tuple((name.replace("_", "-"), it) for name, it in headers.items()))


class HttpGateway:
    """Serves the agents of one queue until it is closed.

    substitute: called for each request, with its path; a reply that it returns is sent instead.
    orders: sent with all answers. seen: all requests. waits: grows while claims wait. tokens: of
    the sessions; gateways of one queue share them.
    """

    def __init__(self, queue: MemoryQueue, tls: ssl.SSLContext | None = None) -> None:
        self.queue = queue
        self.substitute: Callable[[str], Reply | None] = lambda _: None
        self.orders = NO_ORDERS
        self.blobs: dict[str, bytes] = {}
        self.seen: list[SeenRequest] = []
        self.waits = 0
        self.closing = False
        self.tokens: dict[str, int] = {}
        gateway = self

        class Handler(_Handler):
            """Knows its gateway."""

            def answer(self) -> None:
                gateway.answer(self)

        self._server = _Server(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self._server.server_address[1]
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": _POLL_S}, daemon=True
        )
        self._thread.start()

    def connections(self, path: str = "") -> int:
        """Return over how many connections requests for such paths came."""
        return len({request.peer for request in list(self.seen) if request.path.startswith(path)})

    def ended(self) -> int:
        """Return how many connections have ended."""
        return self._server.ended

    def close(self) -> None:
        """Stop serving, and close all connections."""
        self.closing = True
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, handler: _Handler) -> None:
        """Answer a request."""
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        token = (handler.headers.get("Authorization") or "").removeprefix("Bearer ")
        self.seen.append(SeenRequest(handler.client_address, handler.command, handler.path, token))
        reply = self.substitute(handler.path)
        if reply is None:
            try:
                reply = self._reply(handler, token, body)
            except SessionLost:
                reply = error(410, "session_lost")
        handler.send(reply)

    def _reply(self, handler: _Handler, token: str, body: bytes) -> Reply:
        if handler.path == "/healthz":
            return _json({"status": "ok"})
        if handler.path == "/v1/sessions":
            return self._open(token, decoded(Hello, body))
        session = self.tokens.get(token)
        if session is None:
            return error(401, "unauthorized")
        if handler.path == "/v1/exchange":
            return _json(self._exchange(replace(decoded(Request, body), session=session)))
        if handler.path == "/v1/beat":
            beat = replace(decoded(Heartbeat, body), session=session)
            return _json(replace(self.queue.heartbeat(beat), orders=self.orders))
        if handler.path == "/v1/session":
            self.queue.close(session)
            return Reply(204)
        return self._blob(handler, body)

    def _open(self, token: str, hello: Hello) -> Reply:
        if token != TOKEN:
            return error(401, "unauthorized")
        welcome = self.queue.open(hello)
        digest = hmac.new(token.encode(), hello.key.encode(), "sha256").hexdigest()
        self.tokens[f"tqs_{digest}"] = welcome.session
        return _json(replace(welcome, token=f"tqs_{digest}"))

    def _exchange(self, request: Request) -> Answer:
        """Answer, or wait until there are tasks or something else to say."""
        deadline = time.monotonic() + request.wait_s
        answer = self.queue.exchange(request)
        while (
            not (answer.tasks or answer.acks or self.closing or self.orders.drain)
            and not (request.until_empty and answer.unfinished == 0)
            and time.monotonic() < deadline
        ):
            self.waits += 1
            time.sleep(_POLL_S)
            answer = self.queue.exchange(request)
        return replace(answer, orders=self.orders)

    def _blob(self, handler: _Handler, body: bytes) -> Reply:
        digest = handler.path.removeprefix("/v1/blobs/")
        if handler.command == "PUT":
            if hashlib.sha256(body).hexdigest() != digest:
                return error(422, "refused")
            self.blobs[digest] = body
            return Reply(204)
        if digest not in self.blobs:
            return error(404, "not_found")
        wanted = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range") or "")
        offset = int(wanted[1]) if wanted else 0
        return Reply(206 if offset else 200, self.blobs[digest][offset:])


@contextmanager
def gateway_of(queue: MemoryQueue, tls: ssl.SSLContext | None = None) -> Iterator[HttpGateway]:
    """Provide a gateway."""
    gateway = HttpGateway(queue, tls)
    try:
        yield gateway
    finally:
        gateway.close()


def _json(message: Any) -> Reply:
    return Reply(200, dumps(message).encode())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        """Shake hands here, in the connection's own thread, where a bad peer blocks nobody."""
        if isinstance(self.request, ssl.SSLSocket):
            self.request.do_handshake()
        super().setup()

    def answer(self) -> None:
        """Answer a request."""
        raise NotImplementedError

    do_GET = do_POST = do_PUT = do_DELETE = lambda self: self.answer()  # noqa: N815 - http.server's

    def send(self, reply: Reply) -> None:
        """Send a reply."""
        if reply.status:
            self.send_response_only(reply.status)
            for name, value in reply.headers:
                self.send_header(name, value)
            if reply.own:
                self.send_header(ANSWER_HEADER, str(PROTOCOL))
            if not any(name == "Content-Length" for name, _ in reply.headers):
                self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)
            self.wfile.write(reply.afterwards())
        if reply.hang_up:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Be silent."""


class _Server(ThreadingHTTPServer):
    """Closes the connections that are open when it is closed."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._open: set[Any] = set()
        self.ended = 0

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection, and remember it."""
        request, address = super().get_request()
        self._open.add(request)
        return request, address

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection."""
        self._open.discard(request)
        super().shutdown_request(request)
        self.ended += 1

    def server_close(self) -> None:
        """Close everything."""
        super().server_close()
        for request in list(self._open):
            with suppress(OSError):
                request.shutdown(2)

    def handle_error(self, *_: object) -> None:
        """Be silent: clients here break off as a matter of course."""
