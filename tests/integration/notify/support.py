"""Receivers of notifications on this machine, and a look at what is due."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from taskq.db.connections import Database
from taskq.upkeep.looks import Looks
from taskq.upkeep.sender import Sender
from tests.helpers.postgres import Postgres
from tests.helpers.waiting import wait_until

PATIENCE_S = 100.0


def look(database: Database, postgres: Postgres) -> int:
    """Look for events now, as a keeper does; return how many were noted."""
    return noted(database, postgres, Looks(database))


def noted(database: Database, postgres: Postgres, looks: Looks) -> int:
    """Let a keeper look now; return how many events were noted."""
    postgres.execute(
        "update taskq.notify_watch set due_at = now() - interval '1 s', wide_at = now()"
    )
    number = looks.look(database)
    assert number is not None
    return number


def pass_by(postgres: Postgres, seconds: float) -> None:
    """Let time pass for all troubles."""
    postgres.execute(
        "update taskq.known_trouble set holds_since = holds_since - make_interval(secs => %s),"
        " gone_at = gone_at - make_interval(secs => %s)",
        [seconds, seconds],
    )


def send(sender: Sender, done: Callable[[], object]) -> None:
    """Let a sender do rounds until something is so."""

    def one_more() -> object:
        sender.round()
        return done()

    wait_until(one_more, timeout_s=PATIENCE_S)


@dataclass
class Received:
    """A request as a receiver got it."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> dict[str, Any]:
        """The message."""
        message: dict[str, Any] = json.loads(self.body)
        return message


@dataclass
class Receiver:
    """An HTTP server that takes webhooks.

    answer: its status. before_answer: called with each request that came, before it is answered.
    location: where it redirects to. held: whether it goes on, after which it answers.
    """

    answer: int = 200
    location: str | None = None
    before_answer: Callable[[Received], None] = lambda _: None
    got: list[Received] = field(default_factory=list)
    url: str = ""
    _server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        """Listen on a port of its own."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                received = Received(self.path, dict(self.headers), body)
                receiver.got.append(received)
                receiver.before_answer(received)
                self.send_response(receiver.answer)
                if receiver.location is not None:
                    self.send_header("Location", receiver.location)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        threading.Thread(target=self._server.serve_forever, args=[0.05], daemon=True).start()

    def stop(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    @property
    def texts(self) -> list[str]:
        """The texts of all events that came, in order."""
        return [event["text"] for received in self.got for event in received.message["events"]]


class Trickle(socketserver.ThreadingTCPServer):
    """A server that takes a request and answers with a header that never ends, byte by byte."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        self.over = threading.Event()
        self.clients = 0
        super().__init__(("127.0.0.1", 0), _Trickling)
        threading.Thread(target=self.serve_forever, args=[0.05], daemon=True).start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}/"


class _Trickling(socketserver.BaseRequestHandler):
    server: Trickle

    def handle(self) -> None:
        self.server.clients += 1
        try:
            self.request.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
            while not self.server.over.wait(0.05):
                self.request.sendall(b"x")
        except OSError:
            pass
