"""Server of a gateway: sockets, TLS, upkeep, its presence in the database, and an orderly end."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import signal
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import uvloop

from taskq.api.client import Client
from taskq.db.catalogue import all_statements
from taskq.db.connections import Database
from taskq.files.blob_store import BlobStore
from taskq.gateway.app import App
from taskq.gateway.connection import IDLE_S, sweep
from taskq.gateway.errors import Busy
from taskq.gateway.fast_path import AgentConnection
from taskq.gateway.handshakes import Handshakes
from taskq.gateway.listening import Listening, ListeningServer
from taskq.gateway.manager_queries import ManagerQueries
from taskq.gateway.manager_turns import MOST_AT_ONCE
from taskq.gateway.pages_process import PagesProcess
from taskq.gateway.service import Service
from taskq.gateway.settings import Settings
from taskq.model.errors import TaskqError
from taskq.model.version import VERSION
from taskq.upkeep.keeper import keeping

log: Final = logging.getLogger("taskq.gateway")

PERIOD_S: Final = 10.0


class GatewayPresence:
    """Notes a gateway in the database, for `taskq top` and the pages. name: its host and port."""

    def __init__(self, service: Service, name: str) -> None:
        self._service = service
        self._name = name
        self._holder = str(uuid.uuid4())
        self._exchanges, self._at = 0, time.monotonic()

    async def run(self) -> None:
        """Note the gateway until cancelled; then note that it has ended."""
        try:
            while True:
                await self._note(self._sessions())
                await asyncio.sleep(PERIOD_S)
        finally:
            await self._note(None)

    def _sessions(self) -> int:
        """Return how many sessions are heard here; a live one sends within a third of its lease."""
        metrics, lease_s = self._service.metrics, self._service.settings.lease_s
        metrics.forget_silent(time.monotonic() - lease_s)
        since = time.monotonic() - lease_s / 2
        return sum(at >= since for at in metrics.heard.values())

    async def _note(self, sessions: int | None) -> None:
        now, exchanges = time.monotonic(), self._service.metrics.exchanges
        per_s = (exchanges - self._exchanges) / max(now - self._at, 1.0)
        self._exchanges, self._at = exchanges, now
        front = self._service.front
        try:
            (row,) = await self._service.statements.rows(
                "note_gateway",
                holder=self._holder,
                name=self._name,
                release=VERSION,
                sessions=sessions,
                per_s=per_s,
                front=None if front is None else front.pool.breaker.closed,
            )
            if row["note_gateway"] is not None:
                self._service.clock_ahead_s = row["note_gateway"] - time.time()
        except (TaskqError, Busy) as error:
            log.debug("the presence of this gateway cannot be recorded: %s", error)


LOOK_S: Final = 2.0
#: Seconds that requests under way may go on at the end; requests still arriving are dropped.
LAST_ANSWERS_S: Final = 10
_OBJECTS_BETWEEN_GC: Final = 50_000


@dataclass(frozen=True, slots=True)
class Duties:
    """What a gateway does apart from serving.

    drain_s: seconds after SIGTERM in which the gateway still answers agents and sends them
    elsewhere. upkeep: the database for which it is a keeper and, with a front, a refiller; None
    means neither. One of all keepers acts.
    """

    drain_s: float = 10.0
    upkeep: Database | None = None


@dataclass(frozen=True, slots=True)
class Gateway:
    """One gateway of a queue.

    client: its database is anonymous, since errors go to strangers. pages: whether it serves pages
    for people.
    """

    client: Client
    blobs: BlobStore
    settings: Settings
    listening: Listening
    duties: Duties
    pages: bool = False

    def run(self, announce: Callable[[str], None]) -> None:
        """Serve until SIGTERM or SIGINT; a second one ends at once.

        announce: called with the address, once the gateway can be reached. Raise `Unavailable` if
        it cannot listen there, `NotFound` or `UsageError` if something is wrong with the
        certificate.
        """
        all_statements()
        upkeep = nullcontext() if self.duties.upkeep is None else keeping(self.duties.upkeep)
        with (
            self.listening.bind() as listener,
            self._pages_process() as pages,
            upkeep,
            closing(self.client.database.anonymous(most=MOST_AT_ONCE)) as managers,
        ):
            uvloop.run(self._serve(listener, announce, ManagerQueries(managers), pages))

    @contextmanager
    def _pages_process(self) -> Iterator[PagesProcess | None]:
        """Yield the process that serves pages; None if the gateway serves none."""
        if not self.pages:
            yield None
            return
        secure = self.listening.certificate is not None
        with closing(PagesProcess(self.client.database.dsn, secure=secure)) as pages:
            yield pages

    async def _serve(
        self,
        listener: socket.socket,
        announce: Callable[[str], None],
        queries: ManagerQueries,
        pages: PagesProcess | None,
    ) -> None:
        service = Service(self.client.database, self.settings, lambda: len(server.connections))
        app = App(service, self.client.database, self.blobs, queries, pages)
        server = _Server(self, service, app, partial(self._ready, listener, announce))
        # Data that are not HTTP are counted, not logged: anybody can send any amount.
        logging.getLogger("uvicorn").setLevel(logging.ERROR)
        await service.start()
        # Connections and sessions live long; scanning them for garbage again and again would take a
        # tenth of the time of an exchange.
        gc.freeze()
        gc.set_threshold(_OBJECTS_BETWEEN_GC, 20, 50)
        name = f"{socket.gethostname()}:{listener.getsockname()[1]}"
        background = [asyncio.create_task(GatewayPresence(service, name).run()), *self._refilling()]
        try:
            await server.serve([listener])
        finally:
            for task in background:
                task.cancel()
            await asyncio.wait(background, timeout=LAST_ANSWERS_S)
            try:
                await asyncio.wait_for(service.close(), LAST_ANSWERS_S)
            except asyncio.TimeoutError:
                log.warning("the database does not answer: this gateway ends without recording it")
            else:
                log.info("ended in good order")

    def _ready(self, listener: socket.socket, announce: Callable[[str], None]) -> None:
        address = self.listening.address(listener)
        announce(address)
        log.info("serving at %s", address)

    def _refilling(self) -> Iterator[asyncio.Task[None]]:
        """Start a refiller, if there is a front and upkeep is among the duties."""
        front, upkeep = self.settings.front, self.duties.upkeep
        if front is None or upkeep is None:
            return
        from taskq.front.refiller import Refiller  # noqa: PLC0415  # the extra may be missing

        yield asyncio.create_task(Refiller(upkeep, front).run())


class _Server(ListeningServer):
    """A server with an end in two steps: agents are sent elsewhere, then everything is closed."""

    def __init__(
        self, gateway: Gateway, service: Service, app: App, ready: Callable[[], None]
    ) -> None:
        self._certificate = certificate = gateway.listening.certificate
        self._stamp = certificate.stamp() if certificate else None
        self._drain_s = gateway.duties.drain_s
        self._ends_at = math.inf
        self.service = service
        proxies = list(gateway.listening.proxies)
        super().__init__(
            app.asgi,
            ready,
            certificate,
            http=partial(AgentConnection, service),  # makes one
            proxy_headers=bool(proxies),
            forwarded_allow_ips=proxies,
            timeout_keep_alive=round(IDLE_S),
            timeout_graceful_shutdown=LAST_ANSWERS_S,
        )

    @property
    def connections(self) -> set[Any]:
        """The connections of all clients."""
        return self.server_state.connections

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept clients. With TLS, `Handshakes` accepts them, not uvicorn."""
        if self.config.ssl is None:
            await super().startup(sockets)
            return
        protocol: Any = self.config.http_protocol_class
        make = partial(
            protocol,
            config=self.config,
            server_state=self.server_state,
            app_state={},
        )
        accepting = [
            Handshakes(listener, self.config.ssl, make, self._has_room, self._count_refused)
            for listener in sockets or ()
        ]
        for one in accepting:
            one.begin()
        self.servers: list[Any] = [*accepting]
        self.started = True

    def _has_room(self, half_made: int) -> bool:
        return len(self.connections) + half_made < self.service.settings.most_clients

    def _count_refused(self) -> None:
        self.service.metrics.slow += 1

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals, and watch clients and the certificate."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._renew)
        watching = loop.create_task(self._watch_clients())
        try:
            with super().capture_signals():
                yield
        finally:
            watching.cancel()
            loop.remove_signal_handler(signal.SIGHUP)

    def end(self) -> None:
        """Send agents elsewhere, then end; end at once when called again."""
        if self.service.draining:
            self.should_exit = self.force_exit = True
            return
        log.info("draining: no more tasks are handed out, and agents go to other gateways")
        self.service.drain()
        self._ends_at = time.monotonic() + self._drain_s

    async def on_tick(self, counter: int) -> bool:
        """Return whether to end: clients have left, or had time to. Runs ten times a second."""
        if not self.connections or time.monotonic() >= self._ends_at:
            self.should_exit = self.should_exit or self.service.draining
        return await super().on_tick(counter)

    async def _watch_clients(self) -> None:
        """Cut slow clients, and load a new certificate when there is one."""
        while True:
            await asyncio.sleep(LOOK_S)
            sweep(self.connections, self.service)
            if self._certificate is not None and self._certificate.stamp() != self._stamp:
                self._renew()

    def _renew(self) -> None:
        if self._certificate is None or self.config.ssl is None:
            return
        self._stamp = self._certificate.stamp()
        try:
            # Try a separate context first: a half-changed one could serve nobody.
            self._certificate.context()
            self._certificate.load(self.config.ssl)
        except TaskqError as error:
            log.warning("the certificate stays as it was: %s", error)
            return
        log.info("using the new certificate")
