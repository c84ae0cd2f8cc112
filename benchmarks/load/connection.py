"""Connection to a gateway, opened for the first request, and again if it is lost."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from benchmarks.load.messages import Response, cut
from benchmarks.load.work import LoadTarget, LoadTotals
from benchmarks.loop import Loop

CHUNK: Final = 65_536
_BIND_ADDRESS_NO_PORT: Final = 24
"""Of ip(7), not in Python's `socket`: the port is chosen when the other end is known."""


@dataclass(frozen=True, slots=True)
class Route:
    """How to reach a gateway.

    source: the address of this machine to come from: each has ports for some 28,000 connections.
    tls: None for plain HTTP. kept, resumed: see `Work`.
    """

    gateway: LoadTarget
    source: str
    tls: ssl.SSLContext | None
    kept: bool = True
    resumed: bool = False


class LoadConnection:
    """Carries one request at a time.

    opened: called whenever a connection has been made. answered: called with each response. lost:
    called when a request got none, or no connection could be made. A kept connection that turns out
    to be closed when the next request comes is opened again, once, as agents do.
    """

    __slots__ = (
        "_answered",
        "_data",
        "_kept",
        "_loop",
        "_lost",
        "_opened",
        "_opening",
        "_receive",
        "_request",
        "_route",
        "_session",
        "_socket",
        "_tally",
    )

    def __init__(
        self,
        loop: Loop,
        route: Route,
        totals: LoadTotals,
        *,
        opened: Callable[[], None],
        answered: Callable[[Response], None],
        lost: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._route = route
        self._tally = totals
        self._answered = answered
        self._lost = lost
        self._opened = opened
        self._opening = self._kept = False
        self._socket: socket.socket | None = None
        self._session: ssl.SSLSession | None = None
        self._request = b""
        self._data = b""

    def open(self) -> None:
        """Connect, before there is anything to say."""
        fresh = socket.socket()
        fresh.setblocking(False)
        fresh.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        fresh.setsockopt(socket.IPPROTO_IP, _BIND_ADDRESS_NO_PORT, 1)
        self._socket, self._opening = fresh, True
        self._loop.watch(fresh.fileno(), self._established, reading=False, writing=True)
        try:
            fresh.bind((self._route.source, 0))
            fresh.connect_ex(self._route.gateway)
        except OSError:
            self._fail()

    def send(self, request: bytes) -> None:
        """Say something, on the connection that there is or on a new one."""
        self._request = request
        self._kept = self._socket is not None
        if self._kept:
            self._write()
        else:
            self.open()

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._socket is not None:
            self._loop.forget(self._socket.fileno())
            self._socket.close()
            self._socket = None
        self._data = b""

    def _established(self) -> None:
        fresh, context = self._plain(), self._route.tls
        if fresh.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._fail()
            return
        if context is not None:
            self._loop.forget(fresh.fileno())
            fresh = self._socket = context.wrap_socket(
                fresh,
                server_hostname=self._route.gateway.host,
                do_handshake_on_connect=False,
                session=self._session,
            )
            self._loop.watch(fresh.fileno(), self._shake)
            self._shake()
        else:
            self._use(fresh)

    def _shake(self) -> None:
        fresh = self._socket
        assert isinstance(fresh, ssl.SSLSocket)  # noqa: S101  # as `_established` has made it
        try:
            fresh.do_handshake()
        except ssl.SSLWantReadError:
            return
        except OSError:
            self._fail()
            return
        self._tally.resumed += bool(fresh.session_reused)
        self._use(fresh)

    def _use(self, fresh: socket.socket) -> None:
        self._receive, self._opening = fresh.recv, False
        self._loop.watch(fresh.fileno(), self._read)
        self._opened()
        if self._request:
            self._write()

    def _write(self) -> None:
        try:
            # Far smaller than the buffers, which are empty: the last request has been answered.
            if self._plain().send(self._request) < len(self._request):
                self._fail()
        except OSError:
            self._fail()

    def _read(self) -> None:
        try:
            response = None
            while response is None:
                data = self._receive(CHUNK)
                if not data:
                    self._fail()
                    return
                self._data = self._data + data if self._data else data
                response = cut(self._data)
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        except (OSError, ValueError):
            self._fail()
            return
        self._data = self._request = b""
        self._kept = False
        if not self._route.kept or response.closing:
            if self._route.resumed and isinstance(self._socket, ssl.SSLSocket):
                self._session = self._socket.session
            self.close()
        self._answered(response)

    def _fail(self) -> None:
        """Give the connection up, and call `lost` if a connection or an answer is awaited."""
        missed = self._opening or bool(self._request)
        untouched = not self._data
        self.close()
        if self._kept and self._request and untouched:
            self._kept = False
            self._tally.reopened += 1
            self.open()
            return
        self._opening, self._request = False, b""
        if missed:
            self._lost()

    def _plain(self) -> socket.socket:
        assert self._socket is not None  # noqa: S101  # it is being watched
        return self._socket
