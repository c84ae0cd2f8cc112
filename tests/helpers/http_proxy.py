"""A small HTTP proxy, as sites have them between worker nodes and the internet."""

from __future__ import annotations

import base64
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_CHUNK = 65_536
_OF_ONE_CONNECTION = {"connection", "content-length", "date", "server", "transfer-encoding"}


class Proxy:
    """Forwards every name to this host. asked: the first lines and credentials of requests."""

    def __init__(self, credentials: str | None) -> None:
        self.asked: list[tuple[str, str]] = []
        self._wanted = credentials and "Basic " + base64.b64encode(credentials.encode()).decode()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            """Forwards one connection."""

            protocol_version = "HTTP/1.1"

            def do_CONNECT(self) -> None:
                """Join the two ends."""
                if proxy.lets_in(self):
                    port = int(self.path.rpartition(":")[2])
                    with socket.create_connection(("127.0.0.1", port)) as other:
                        self.send_response(200)
                        self.end_headers()
                        _join(self.connection, other)
                self.close_connection = True

            def do_POST(self) -> None:
                """Repeat the request, which names its server in full."""
                if not proxy.lets_in(self):
                    return
                url = urlsplit(self.path)
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name: it for name, it in self.headers.items() if "Proxy" not in name}
                onward = HTTPConnection("127.0.0.1", url.port)
                onward.request("POST", url.path, body, headers)
                answer = onward.getresponse()
                content = answer.read()
                onward.close()
                self.send_response(answer.status)
                for name, it in answer.getheaders():
                    if name.lower() not in _OF_ONE_CONNECTION:
                        self.send_header(name, it)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Be silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.place = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def lets_in(self, request: BaseHTTPRequestHandler) -> bool:
        """Record a request; refuse it if it lacks the credentials."""
        shown = request.headers.get("Proxy-Authorization") or ""
        self.asked.append((request.requestline.rpartition(" ")[0], shown))
        if self._wanted is None or shown == self._wanted:
            return True
        request.send_response(407)
        request.send_header("Content-Length", "0")
        request.end_headers()
        return False

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def proxy_of(credentials: str | None = None) -> Iterator[Proxy]:
    """Provide a proxy; credentials: `user:password` that it wants."""
    proxy = Proxy(credentials)
    try:
        yield proxy
    finally:
        proxy.close()


def _join(sock: socket.socket, other: socket.socket) -> None:
    ends = {sock: other, other: sock}
    with suppress(OSError):
        while True:
            for end in select.select(list(ends), [], [])[0]:
                data = end.recv(_CHUNK)
                if not data:
                    return
                ends[end].sendall(data)
