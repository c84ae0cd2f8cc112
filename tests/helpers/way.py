"""Something between clients and a gateway, which may answer in the gateway's place."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

_OF_ONE_CONNECTION = {"connection", "content-length", "keep-alive", "transfer-encoding"}
_FORWARD_S = 120.0


class Page(NamedTuple):
    """An answer of the way's own."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = (("Server", "nginx/1.22.1"),)


NGINX_413 = Page(
    413,
    b"<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n<body>\r\n"
    b"<center><h1>413 Request Entity Too Large</h1></center>\r\n</body>\r\n</html>\r\n",
)
PORTAL = Page(200, b"<html><title>Welcome to Wi-Fi</title></html>", ())

#: Returns what the way answers to a method, a path and a body; None if it forwards them.
Judge = Callable[[str, str, bytes], "Page | None"]
#: Returns the bytes that the way sends for the gateway's answer to a path; None if it changes none.
Alter = Callable[[str, Page], "bytes | None"]


class Way:
    """Forwards requests to a gateway, or answers them itself, as `judge` says.

    judge_answer: the same for the answers of the gateway. alter: how it writes answers; None: as
    they are. pages: how often it has answered itself.
    """

    def __init__(self, port: int) -> None:
        self.judge: Judge = lambda *_: None
        self.judge_answer: Judge = lambda *_: None
        self.alter: Alter | None = None
        self.pages = 0
        way = self

        class Handler(BaseHTTPRequestHandler):
            """Serves one connection."""

            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                page = way.judge(self.command, self.path, body)
                if page is None:
                    page = way.forward(self, port, body)
                else:
                    way.pages += 1
                altered = way.alter and way.alter(self.path, page)
                if altered:
                    self.wfile.write(altered)
                    self.close_connection = True
                    return
                self.send_response_only(page.status)
                for name, value in page.headers:
                    self.send_header(name, value)
                if page.status != 204:
                    self.send_header("Content-Length", str(len(page.body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(page.body)

            do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 - http.server's

            def log_message(self, *_: object) -> None:
                """Be silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # be silent
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def forward(self, request: BaseHTTPRequestHandler, port: int, body: bytes) -> Page:
        """Ask the gateway; say 502 if it does not answer."""
        onward = HTTPConnection("127.0.0.1", port, timeout=_FORWARD_S)
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in _OF_ONE_CONNECTION
        }
        try:
            onward.request(request.command, request.path, body, headers)
            answer = onward.getresponse()
            content = answer.read()
        except (OSError, HTTPException):
            self.pages += 1
            return Page(502, b"<html><title>502 Bad Gateway</title></html>")
        finally:
            onward.close()
        page = self.judge_answer(request.command, request.path, content)
        if page is not None:
            self.pages += 1
            return page
        kept = [(k, v) for k, v in answer.getheaders() if k.lower() not in _OF_ONE_CONNECTION]
        return Page(answer.status, content, tuple(kept))

    def close(self) -> None:
        """Serve no more."""
        with suppress(OSError):
            self._server.shutdown()
            self._server.server_close()


@contextmanager
def way_to(port: int) -> Iterator[Way]:
    """Provide a way to the gateway at a port of this machine."""
    way = Way(port)
    try:
        yield way
    finally:
        way.close()


def limit_of(most_bytes: int) -> Judge:
    """Return a limit on bodies, such as that of nginx."""
    return lambda _method, _path, body: NGINX_413 if len(body) > most_bytes else None
