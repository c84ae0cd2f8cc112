"""Connections to gateways, kept and reused."""

from __future__ import annotations

import io
import select
import socket
import ssl
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from typing import Iterator, List, Mapping, Optional, Tuple

from taskq_agent.http.dial import DialedConnection, Dialer
from taskq_agent.http.gateways import GatewayAddress

_MOST_IDLE = 2  # one for exchanges, one for heartbeats between them
_CHUNK_BYTES = 65_536


@dataclass(frozen=True)
class HttpRequest:
    """A request, independent of the gateway; it may be repeated unchanged."""

    method: str
    path: str
    body: Optional[bytes] = None
    headers: Mapping[str, str] = field(default_factory=dict)


class TooLong(ValueError):
    """The answer exceeds its size limit."""


class RequestCanceller:
    """Cancels a request, whatever it is waiting for; the request then fails with an OSError."""

    def __init__(self) -> None:
        self.cancelled = False
        self._lock = threading.Lock()
        self._sock: Optional[socket.socket] = None

    def guard(self, sock: socket.socket) -> None:
        """Note the socket of the request; OSError if it is cancelled already."""
        with self._lock:
            if self.cancelled:
                raise ConnectionAbortedError("broken off")
            self._sock = sock

    def release(self) -> None:
        """Note that the request is over: its connection may be reused."""
        with self._lock:
            self._sock = None

    def cancel(self) -> None:
        """Cancel the request, from any thread."""
        with self._lock:
            self.cancelled = True
            if self._sock is not None:
                with suppress(OSError):
                    # not SSLSocket.shutdown, which removes TLS under the thread that reads
                    socket.socket.shutdown(self._sock, socket.SHUT_RDWR)


class Connections:
    """Kept connections to gateways. Thread-safe.

    A request that finds no idle connection opens one, so no request ever waits for another.
    """

    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer
        self._lock = threading.Lock()
        self._idle: List[Tuple[GatewayAddress, DialedConnection]] = []
        self.is_closed = False

    @contextmanager
    def answered(
        self,
        address: GatewayAddress,
        http_request: HttpRequest,
        *,
        timeout_s: float,
        canceller: Optional[RequestCanceller] = None,
    ) -> Iterator[HTTPResponse]:
        """Provide the answer, to be read in the block; OSError or HTTPException if there is none.

        timeout_s: for each step of sending and receiving. If the other side has closed a kept
        connection meanwhile, another is opened without an error.
        """
        connection, response = self._request(
            address, http_request, timeout_s, canceller or RequestCanceller()
        )
        whole = False
        try:
            yield response
            whole = response.isclosed() and not response.will_close
        finally:
            if canceller is not None:
                canceller.release()
            if whole:
                self._give_back(address, connection)
            else:
                response.close()
                connection.close()

    def close(self) -> None:
        """Close the idle connections; those in use close as soon as their request ends."""
        with self._lock:
            self.is_closed = True
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _request(
        self,
        address: GatewayAddress,
        http_request: HttpRequest,
        timeout_s: float,
        canceller: RequestCanceller,
    ) -> Tuple[DialedConnection, HTTPResponse]:
        kept = self._take(address)
        if kept is not None:
            try:
                return kept, _send(kept, http_request, timeout_s, canceller)
            except (OSError, HTTPException) as error:
                kept.close()
                if canceller.cancelled or _has_timed_out(error):
                    raise
            except BaseException:
                kept.close()
                raise
        connection = self._dialer.dial(address)
        try:
            return connection, _send(connection, http_request, timeout_s, canceller)
        except BaseException:
            connection.close()
            raise

    def _take(self, address: GatewayAddress) -> Optional[DialedConnection]:
        """Return the connection used last; close those to former gateways."""
        useless: List[DialedConnection] = []
        with self._lock:
            kept, self._idle = self._idle, []
            found: Optional[DialedConnection] = None
            for where, connection in reversed(kept):
                if where != address or _is_readable(connection.sock):
                    useless.append(connection)
                elif found is None:
                    found = connection
                else:
                    self._idle.insert(0, (where, connection))
        for connection in useless:
            connection.close()
        return found

    def _give_back(self, address: GatewayAddress, connection: DialedConnection) -> None:
        with self._lock:
            most = 0 if self.is_closed else _MOST_IDLE
            self._idle.append((address, connection))
            surplus = self._idle[: len(self._idle) - most]
            del self._idle[: len(surplus)]
        for _, old in surplus:
            old.close()


def read_all(response: HTTPResponse, *, most_bytes: int, within_s: float) -> bytes:
    """Return the body.

    Raises TooLong; TimeoutError if it takes longer than `within_s`; ConnectionError if it is
    truncated.
    """
    deadline = time.monotonic() + within_s
    chunks: List[bytes] = []
    total = 0
    for chunk in chunks_of(response):
        total += len(chunk)
        if total > most_bytes:
            raise TooLong(f"the answer is longer than {most_bytes} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError(f"the answer is not complete after {within_s:.0f} s")
        chunks.append(chunk)
    return b"".join(chunks)


def chunks_of(response: HTTPResponse) -> Iterator[bytes]:
    """Yield the body as it arrives; ConnectionError if it is truncated."""
    while chunk := response.read1(_CHUNK_BYTES):
        yield chunk
    if response.length:
        raise ConnectionAbortedError(f"the answer ends {response.length} bytes too early")
    response.close()


def _send(
    connection: DialedConnection,
    http_request: HttpRequest,
    timeout_s: float,
    canceller: RequestCanceller,
) -> HTTPResponse:
    canceller.guard(connection.sock)
    connection.sock.settimeout(timeout_s)
    headers = {**http_request.headers, **connection.headers}
    body = None
    if http_request.body is not None:
        headers["Content-Length"] = str(len(http_request.body))
        body = io.BytesIO(http_request.body)  # sent in blocks, each within the time-out
    with suppress(BrokenPipeError, ssl.SSLEOFError):  # it may have sent a reason before it closed
        connection.http.request(
            http_request.method, connection.before_path + http_request.path, body, headers
        )
    return connection.http.getresponse()


def _is_readable(sock: socket.socket) -> bool:
    """Return whether an idle connection was closed, or has unexpected input."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def _has_timed_out(error: Exception) -> bool:
    # ETIMEDOUT of the kernel has a number: the connection was dead, so it is retried
    return isinstance(error, socket.timeout) and error.errno is None
