"""How servers listen: the address, its certificate, which can change, and uvicorn's settings."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import uvicorn

from taskq.model.errors import NotFound, Unavailable, UsageError

BACKLOG: Final = 4_096
_ENDING: Final = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """The files of a certificate with its intermediates (`chain`), and of its private key."""

    chain: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """Return a server's context: TLS 1.2 and later; raise `NotFound` or `UsageError`."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        self.load(context)
        return context

    def load(self, context: ssl.SSLContext) -> None:
        """Load the files as they are now, for all later connections."""
        try:
            context.load_cert_chain(self.chain, self.key)
        except ssl.SSLError as error:
            why = error.reason or error.strerror  # no reason where there is no PEM at all
            raise UsageError(
                f"{self.chain} and {self.key} are not a certificate and its key in PEM: {why}"
            ) from None
        except OSError as error:
            unread = self.key if os.access(self.chain, os.R_OK) else self.chain
            raise NotFound(f"{unread}: {error.strerror}") from None

    def stamp(self) -> tuple[float, float]:
        """Return the modification times of the files, zeros if one is missing."""
        try:
            return self.chain.stat().st_mtime, self.key.stat().st_mtime
        except OSError:  # it may be in the middle of a replacement
            return 0.0, 0.0


@dataclass(frozen=True, slots=True)
class Listening:
    """The address at which a server listens.

    port 0: any free port. shared: other processes may listen there too (SO_REUSEPORT), and the
    kernel spreads the connections. proxies: addresses of proxies that are trusted to name a
    request's client.
    """

    host: str = "127.0.0.1"
    port: int = 8443
    shared: bool = False
    certificate: ServerCertificate | None = None
    proxies: tuple[str, ...] = ()

    def bind(self) -> socket.socket:
        """Return a listening socket; raise `Unavailable` if the address cannot be used."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if self.shared:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.bind((self.host, self.port))
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            raise Unavailable(
                f"cannot listen at {self.host} port {self.port}: {error.strerror}"
            ) from None
        listener.setblocking(False)
        return listener

    def address(self, listener: socket.socket) -> str:
        """Return the URL of a listening socket."""
        scheme = "http" if self.certificate is None else "https"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{listener.getsockname()[1]}"


class ListeningServer(uvicorn.Server):
    """uvicorn that ends with exit code 0 on a signal, and says when it can be reached.

    certificate: for TLS; raise `NotFound` or `UsageError` if its files cannot be used. settings:
    further ones of `uvicorn.Config`.
    """

    def __init__(
        self,
        app: Any,
        ready: Callable[[], None],
        certificate: ServerCertificate | None,
        **settings: Any,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                backlog=BACKLOG,  # or uvicorn would make it smaller
                **settings,
            )
        )
        self._ready = ready
        self.config.load()
        if certificate is not None:
            self.config.ssl = certificate.context()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals in place of uvicorn, which would raise them again at its end."""
        loop = asyncio.get_running_loop()
        for number in _ENDING:
            loop.add_signal_handler(number, self.end)
        try:
            self._ready()  # only now: a process that learns the address may send a signal
            yield
        finally:
            for number in _ENDING:
                loop.remove_signal_handler(number)

    def end(self) -> None:
        """End soon."""
        self.should_exit = True
