"""Opening of connections to gateways: TLS, proxies from the environment, timeouts."""

from __future__ import annotations

import base64
import socket
import ssl
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Dict, Mapping, Optional, Tuple
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from taskq_agent.http.gateways import GatewayAddress

CONNECT_S = 15.0  # also for the handshake, when thousands arrive at once

_BLOCK_BYTES = 65_536
_KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}  # seconds, and a count


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
            files = f"--cert {cert}" if key is None else f"--cert {cert}, --key {key}"
            raise ValueError(f"{files}: {error.strerror or error}") from None
    return context


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
    """Opens connections, through the proxies of `getproxies` that `no_proxy` does not exclude.

    Loopback never goes through a proxy: it would be the loopback of the proxy's host.
    """

    def __init__(self, tls: Optional[ssl.SSLContext] = None) -> None:
        self._tls = tls or tls_context()

    def dial(self, address: GatewayAddress) -> DialedConnection:
        """Return a new connection; OSError (TLS errors included) if none can be opened."""
        proxy = _proxy_for(address)
        host, port = (address.host, address.port) if proxy is None else _proxy_address(proxy)
        http: HTTPConnection
        if address.scheme == "https":
            http = HTTPSConnection(
                host, port, timeout=CONNECT_S, blocksize=_BLOCK_BYTES, context=self._tls
            )
            if proxy is not None:
                http.set_tunnel(address.host, address.port, _credentials(proxy))
        else:
            http = HTTPConnection(host, port, timeout=CONNECT_S, blocksize=_BLOCK_BYTES)
        try:
            http.connect()
            sock: socket.socket = http.sock  # http forgets it when the other side is to close
            _keep_alive(sock)
        except BaseException:
            http.close()
            raise
        if proxy is None or address.scheme == "https":
            return DialedConnection(http, sock, address.prefix)
        return DialedConnection(http, sock, str(address), _credentials(proxy))


def _proxy_for(address: GatewayAddress) -> Optional[SplitResult]:
    proxies = getproxies()
    url = proxies.get(address.scheme) or proxies.get("all")
    if not url or address.is_loopback or proxy_bypass(f"{address.host}:{address.port}"):
        return None
    return urlsplit(url if "://" in url else f"http://{url}")


def _proxy_address(proxy: SplitResult) -> Tuple[str, int]:
    try:
        port = proxy.port or 80
    except ValueError as error:
        raise OSError(f"the proxy of the environment: {error}") from None
    if proxy.scheme != "http" or not proxy.hostname:
        raise OSError("the proxy of the environment is none that http://HOST:PORT names")
    return proxy.hostname, port


def _credentials(proxy: SplitResult) -> Dict[str, str]:
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return {"Proxy-Authorization": "Basic " + base64.b64encode(pair).decode()}


def _keep_alive(sock: socket.socket) -> None:
    """Let the kernel detect peers that are gone, and keep routers from dropping the connection."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
