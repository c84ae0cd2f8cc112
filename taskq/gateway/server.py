"""A gateway as a process: its server, its upkeep, and its end."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Final

import uvloop

from taskq.api.client import Client
from taskq.db.catalogue import all_statements
from taskq.db.connections import Database
from taskq.files.blob_store import BlobStore
from taskq.gateway.app import App
from taskq.gateway.http.clients import HttpClients
from taskq.gateway.http.listening import Listening
from taskq.gateway.http.proxies import Proxies
from taskq.gateway.http.server import HttpServer, allocator
from taskq.gateway.manager_queries import ManagerQueries
from taskq.gateway.manager_turns import MOST_AT_ONCE
from taskq.gateway.pages_process import PagesProcess
from taskq.gateway.presence import GatewayPresence
from taskq.gateway.service import Service
from taskq.gateway.settings import Settings
from taskq.upkeep.looking import keeping_and_looking
from taskq_agent.protocol import ANSWER_HEADER, PROTOCOL

log: Final = logging.getLogger("taskq.gateway")

#: Seconds that requests under way may go on at the end; requests still arriving are dropped.
LAST_ANSWERS_S: Final = 10
_OBJECTS_BETWEEN_GC: Final = 50_000
#: Blocks of more bytes are given back to the system when they are freed: else glibc, once it has
#: seen a block of some MiB, keeps what slow readers of blobs and statements had for ever. More than
#: uvloop takes for each read in TLS, 256 KiB: mapping that anew cost a fifth of the exchanges.
_LARGE_BLOCK_BYTES: Final = 1 << 19
_M_MMAP_THRESHOLD: Final = -3
#: Threads for blobs, which wait for a store most of the time.
_THREADS: Final = 40


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
        allocator("mallopt", _M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)
        kept = self.duties.upkeep
        upkeep = nullcontext() if kept is None else keeping_and_looking(kept)
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
        service = Service(self.client.database, self.settings, lambda: len(clients.connections))
        app = App(service, self.client.database, self.blobs, queries, pages)
        clients = HttpClients(
            app.routes.serve,
            service.metrics,
            most=self.settings.most_clients,
            kept=service.bytes,
            headers={ANSWER_HEADER: str(PROTOCOL)},
            proxies=Proxies(self.listening.proxies),
        )
        server = HttpServer(
            clients,
            self.listening.certificate,
            last_answers_s=LAST_ANSWERS_S,
            drain_s=self.duties.drain_s,
            drain=partial(_drain, service),
            outlives_terminal=True,
        )
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS, "taskq-blobs"))
        await service.start()
        # Connections and sessions live long; scanning them for garbage again and again would take a
        # tenth of the time of an exchange.
        gc.freeze()
        gc.set_threshold(_OBJECTS_BETWEEN_GC, 20, 50)
        name = f"{socket.gethostname()}:{listener.getsockname()[1]}"
        presence = GatewayPresence(service, name, self.listening.certificate)
        background = [asyncio.create_task(presence.run()), *self._refilling()]
        try:
            await server.serve(listener, partial(self._ready, listener, announce))
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


def _drain(service: Service) -> None:
    log.info("draining: no more tasks are handed out, and agents go to other gateways")
    service.drain()
