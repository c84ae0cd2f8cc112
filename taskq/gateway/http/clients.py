"""Clients of one server: what they share, and what is counted of them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any, Final, Protocol

from taskq.gateway.http.kept_bytes import ClientBytes
from taskq.gateway.http.proxies import Proxies
from taskq.gateway.http.request import ClientRequest

#: Seconds for which a connection without requests is kept. Agents send heartbeats more often.
IDLE_S: Final = 150.0


class ClientCounters(Protocol):
    """What a server counts. slow: connections cut; abandoned: requests whose client was gone.

    failures: refusals by code. certificate_ends: when the certificate in use expires, in seconds
    since the epoch; None if that is not known.
    """

    slow: int
    abandoned: int
    failures: Counter[str]
    certificate_ends: float | None


@dataclass(slots=True)
class PlainCounters:
    """Counters for a server without metrics."""

    slow: int = 0
    abandoned: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    certificate_ends: float | None = None


class Connected(Protocol):
    """A connection, as its server knows it. deadline: when to give it up; inf while it waits."""

    deadline: float

    def give_up(self) -> None:
        """Cut a client whose deadline has passed."""

    def shutdown(self) -> None:
        """End after the current answer."""

    def abort(self) -> None:
        """Cut the connection."""


class HttpClients:
    """The clients of one server; for one asyncio loop.

    serve: begins to answer a request; raises nothing. most: connections at a time. idle_s: how long
    one without requests is kept. headers: of all answers. proxies: those that are trusted to name
    clients.
    """

    def __init__(
        self,
        serve: Callable[[ClientRequest], None],
        counters: ClientCounters,
        *,
        most: int,
        idle_s: float = IDLE_S,
        kept: ClientBytes | None = None,
        headers: Mapping[str, str] | None = None,
        proxies: Proxies | None = None,
    ) -> None:
        self.serve = serve
        self.counters = counters
        self.most = most
        self.idle_s = idle_s
        self.bytes = kept or ClientBytes()
        self.proxies = proxies or Proxies()
        self.connections: set[Connected] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self._lines = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        #: The lines that begin the head of each answer.
        self.common = b""
        self.note_date()

    def spawn(self, steps: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run some steps in the background, of which the server knows."""
        task = asyncio.get_running_loop().create_task(steps)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def note_date(self) -> None:
        """Renew the date that answers bear; call it once a second."""
        self.common = f"date: {formatdate(usegmt=True)}\r\n{self._lines}".encode()

    def sweep(self) -> None:
        """Cut connections whose deadline has passed, and those that keep room from others."""
        now = time.monotonic()
        late = [connection for connection in self.connections if connection.deadline < now]
        for connection in late:
            self.counters.slow += 1
            connection.give_up()
        self.bytes.untaken.press()
