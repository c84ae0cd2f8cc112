"""Server of HTTP: accepts clients, looks after them and the certificate, and ends in good order."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import math
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from taskq.gateway.http.certificates import AGAIN_S, ServerCertificate, Validity
from taskq.gateway.http.clients import HttpClients
from taskq.gateway.http.connection import HttpConnection
from taskq.gateway.http.handshakes import Handshakes
from taskq.gateway.http.listening import BACKLOG
from taskq.model.errors import TaskqError, UsageError
from taskq.model.loop_faults import LoopFaults

log: Final = logging.getLogger("taskq.gateway")

#: Seconds between two looks at clients that are late, and at the certificate.
LOOK_S: Final = 2.0
_TICK_S: Final = 0.1
_ENDING: Final = (signal.SIGTERM, signal.SIGINT)
#: Memory is given back to the system when clients have taken answers of more bytes than this.
_MUCH_UNTAKEN_BYTES: Final = 4 << 20


class HttpServer:
    """A server for one asyncio loop. certificate: for TLS; its files may change meanwhile.

    last_answers_s: seconds for the last answers, at the end. drain: called when the end begins;
    clients are then served for `drain_s`, for as long as there are any. outlives_terminal: whether
    SIGHUP ends it no more; it renews the certificate. Raise `NotFound` or `UsageError` if the files
    of the certificate cannot be used.
    """

    def __init__(
        self,
        clients: HttpClients,
        certificate: ServerCertificate | None,
        *,
        last_answers_s: float,
        drain_s: float = 0.0,
        outlives_terminal: bool = False,
        drain: Callable[[], None] = lambda: None,
    ) -> None:
        self.clients = clients
        self._certificate = certificate
        self._last_answers_s = last_answers_s
        self._drain_s = drain_s
        self._drain = drain
        self._outlives_terminal = outlives_terminal
        self._ends_at = math.inf
        self._is_forced = False
        #: When the certificate in use is valid, if that is known.
        self.validity: Validity | None = None
        self._warns_at = 0.0
        self._stamp = certificate.stamp() if certificate else None
        self._context = certificate.context() if certificate else None
        self._renewed(certificate.validity() if certificate else None)

    async def serve(self, listener: socket.socket, ready: Callable[[], None]) -> None:
        """Serve until SIGTERM, SIGINT or `end`. ready: called when both signals are handled."""
        with self._handling_signals(), listener:
            ready()  # only now: a process that learns the address may send a signal
            accepting = await self._accept(listener)
            watching = asyncio.create_task(self._watch())
            try:
                await self._until_the_end()
            finally:
                watching.cancel()
                accepting.close()
                await self._shut_down()
                await accepting.wait_closed()

    def end(self) -> None:
        """Begin the end; end at once when called again."""
        if self._ends_at < math.inf:
            self._is_forced = True
            return
        self._ends_at = time.monotonic() + self._drain_s
        self._drain()

    @contextmanager
    def _handling_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in _ENDING:
            loop.add_signal_handler(number, self.end)
        if self._outlives_terminal or self._certificate is not None:
            loop.add_signal_handler(signal.SIGHUP, self._renew)
        try:
            yield
        finally:
            for number in (*_ENDING, signal.SIGHUP):
                loop.remove_signal_handler(number)

    async def _accept(self, listener: socket.socket) -> Any:
        def connection() -> HttpConnection:
            return HttpConnection(self.clients)

        if self._context is None:
            loop = asyncio.get_running_loop()
            is_local = listener.family == socket.AF_UNIX
            create = loop.create_unix_server if is_local else loop.create_server
            return await create(connection, sock=listener, backlog=BACKLOG)
        handshakes = Handshakes(
            listener, self._context, connection, self._has_room, self._count_refused
        )
        handshakes.begin()
        return handshakes

    def _has_room(self, half_made: int) -> bool:
        return len(self.clients.connections) + half_made < self.clients.most

    def _count_refused(self) -> None:
        self.clients.counters.slow += 1

    async def _until_the_end(self) -> None:
        while not self._is_forced and time.monotonic() < self._ends_at:
            if self._ends_at < math.inf and not self.clients.connections:
                return
            self.clients.note_date()
            await asyncio.sleep(_TICK_S)

    async def _shut_down(self) -> None:
        """Give the last answers their time, then cut what is left."""
        for connection in list(self.clients.connections):
            connection.shutdown()
        until = time.monotonic() + self._last_answers_s
        # Answers are on their way for a moment after their connection was closed.
        await asyncio.sleep(_TICK_S)
        while self.clients.connections or self.clients.tasks:
            if self._is_forced or time.monotonic() > until:
                break
            await asyncio.sleep(_TICK_S)
        for task in self.clients.tasks:
            task.cancel()
        for connection in list(self.clients.connections):
            connection.abort()

    async def _watch(self) -> None:
        """Cut slow clients, and load a new certificate when there is one."""
        untaken, was_much = self.clients.bytes.untaken, False
        clients = LoopFaults(log, "the look at slow clients")
        certificate = LoopFaults(log, "the look at the certificate")
        while True:
            await asyncio.sleep(LOOK_S)
            with clients.noted():
                self.clients.sweep()
                is_much = untaken.size > _MUCH_UNTAKEN_BYTES
                if was_much and not is_much:
                    gc.collect()  # connections are cycles, each with buffers
                    allocator("malloc_trim", 0)
                was_much = is_much
            with certificate.noted():
                self._warn_of_certificate()
                if self._certificate is not None and self._certificate.stamp() != self._stamp:
                    self._renew()

    def _renew(self) -> None:
        certificate, in_use = self._certificate, self.validity
        if certificate is None or self._context is None:
            return
        self._stamp = certificate.stamp()
        validity = certificate.validity()
        try:
            # Try a separate context first: a half-changed one could serve nobody.
            certificate.context()
            if validity is not None and not validity.is_now() and in_use and in_use.is_now():
                raise UsageError(f"the new one, {certificate.chain}, {validity.fault()}")
            certificate.load(self._context)
        except TaskqError as error:
            log.warning("the certificate stays as it was: %s", error)
            return
        log.info("using the new certificate")
        self._renewed(validity)

    def _renewed(self, validity: Validity | None) -> None:
        """Note when the new certificate is valid, and warn if that is not now."""
        self.validity, self._warns_at = validity, 0.0
        self.clients.counters.certificate_ends = validity.ends if validity else None
        self._warn_of_certificate()

    def _warn_of_certificate(self) -> None:
        """Log what is wrong with the certificate in use, or soon will be; once a day."""
        if self.validity is None or time.monotonic() < self._warns_at:
            return
        if (fault := self.validity.fault()) is not None:
            self._warns_at = time.monotonic() + AGAIN_S
            log.warning(
                "the certificate %s %s", self._certificate and self._certificate.chain, fault
            )


def allocator(name: str, *arguments: int) -> None:
    """Call a function of glibc's allocator; another C library has another one."""
    with suppress(AttributeError):
        getattr(ctypes.CDLL(None), name)(*arguments)
