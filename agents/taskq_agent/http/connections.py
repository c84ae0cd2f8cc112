"""Connections to gateways: opened by TLS and proxies from the environment, kept, reused."""

from __future__ import annotations

import io
import select
import socket
import ssl
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
)
from pathlib import Path
from typing import Iterator, List, Mapping, Optional, Tuple

from taskq_agent.http.bounded_answers import BoundedAnswer
from taskq_agent.http.gateways import GatewayAddress
from taskq_agent.http.proxies import Proxy, proxy_for

CONNECT_S = 15.0  # also for the handshake, when thousands arrive at once

_BLOCK_BYTES = 65_536
_NAMES = "use a name that the certificate has"
_ADVICE = {  # by OpenSSL's number of what is wrong with a certificate
    9: "compare this machine's clock with the gateway's",
    10: "the gateway needs a new one, which it reads while it runs",
    62: _NAMES,
    64: _NAMES,
}
_KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}  # seconds, and a count

_MOST_IDLE = 2  # one for exchanges, one for heartbeats between them
_CHUNK_BYTES = 65_536


def tls_context(
    ca: Optional[Path] = None, cert: Optional[Path] = None, key: Optional[Path] = None
) -> ssl.SSLContext:
    """Return the TLS settings; certificates are always verified.

    ca: the authorities to trust, instead of the system's. cert, key: the certificate that the agent
    presents; the key may be in the same file. ValueError if a file cannot be read or has other
    content.
    """
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except OSError as error:  # ssl.SSLError is one; neither names the file
        raise ValueError(f"--ca {ca}: {error.strerror or error}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if cert is not None:
        try:
            context.load_cert_chain(str(cert), None if key is None else str(key))
        except OSError as error:
            files = f"--tls-cert {cert}" if key is None else f"--tls-cert {cert}, --tls-key {key}"
            raise ValueError(f"{files}: {error.strerror or error}") from None
    return context


def why_not_trusted(error: ssl.SSLCertVerificationError, authorities: str) -> str:
    """Return what is wrong with a server's certificate, and what to do about it.

    authorities: the option or variable that names the file of authorities, such as `--ca`.
    """
    advice = _ADVICE.get(error.verify_code, f"name an authority of your own by {authorities}")
    return f"{error.verify_message.rstrip('.')}; {advice}"


@dataclass
class DialedConnection:
    """An open connection. before_path, headers: what a proxy needs in each request."""

    http: HTTPConnection
    sock: socket.socket
    before_path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    def close(self) -> None:
        """Close it, even if an answer has not been read to its end."""
        self.http.close()
        self.sock.close()


class Dialer:
    """Opens connections, through the proxies of the environment; see `proxy_for`."""

    def __init__(self, tls: Optional[ssl.SSLContext] = None) -> None:
        self._tls = tls or tls_context()

    def dial(self, address: GatewayAddress) -> DialedConnection:
        """Return a new connection; OSError (TLS errors included) if none can be opened."""
        proxy = proxy_for(address)
        try:
            return self._dial(address, proxy)
        except ssl.SSLError:
            raise
        except OSError as error:
            if proxy is None:
                raise
            raise ConnectionError(f"{error} (through {proxy})") from error

    def _dial(self, address: GatewayAddress, proxy: Optional[Proxy]) -> DialedConnection:
        to = address if proxy is None else proxy
        host, port = to.host, to.port
        http: HTTPConnection
        if address.scheme == "https":
            http = HTTPSConnection(
                host, port, timeout=CONNECT_S, blocksize=_BLOCK_BYTES, context=self._tls
            )
            if proxy is not None:
                http.set_tunnel(address.host, address.port, proxy.headers)
        else:
            http = HTTPConnection(host, port, timeout=CONNECT_S, blocksize=_BLOCK_BYTES)
        http.response_class = BoundedAnswer
        try:
            http.connect()
            sock: socket.socket = http.sock  # http forgets it if the other side will close
            _keep_alive(sock)
        except BaseException:
            http.close()
            raise
        if proxy is None or address.scheme == "https":
            return DialedConnection(http, sock, address.prefix)
        return DialedConnection(http, sock, str(address), proxy.headers)


def _keep_alive(sock: socket.socket) -> None:
    """Let the kernel detect peers that are gone, and keep routers from dropping the connection."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


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
    try:
        while chunk := response.read1(_CHUNK_BYTES):
            yield chunk
    except IncompleteRead:
        raise ConnectionAbortedError("the answer ends within a chunk") from None
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
