"""Detection of a wrong scheme: `http` where a gateway speaks TLS, `https` where it does not."""

from __future__ import annotations

import socket
import ssl
from http.client import HTTPException
from typing import Optional

from taskq_agent.http.gateways import GatewayAddress

_PROBE_S = 5.0
# OpenSSL's reasons for an answer that is not TLS; they differ by version.
_NO_TLS = frozenset(
    {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG"}
)


def no_tls(address: GatewayAddress, error: Exception) -> Optional[str]:
    """Return what is wrong if TLS failed because the other side does not speak it; else None."""
    if address.scheme == "https" and isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
        return f"{address}: no TLS is spoken there; is it http://{_rest(address)}?"
    return None


def wrong_scheme(address: GatewayAddress, error: Exception) -> Optional[str]:
    """Return what is wrong if the other scheme would work; may probe the gateway."""
    failed = isinstance(error, (HTTPException, ConnectionError))
    if address.scheme == "http" and failed and _speaks_tls(address):
        return f"{address}: TLS is spoken there; is it https://{_rest(address)}?"
    return no_tls(address, error)


def _rest(address: GatewayAddress) -> str:
    return str(address).partition("://")[2]


def _speaks_tls(address: GatewayAddress) -> bool:
    context = ssl.create_default_context()
    context.check_hostname = False  # nothing is sent, so the identity of the peer does not matter
    context.verify_mode = ssl.CERT_NONE
    try:
        host_and_port = (address.host, address.port)
        with socket.create_connection(host_and_port, timeout=_PROBE_S) as sock:
            context.wrap_socket(sock, server_hostname=address.host).close()
    except ssl.SSLError as error:
        # An alert is TLS, for example from a server that requires a client's certificate. A
        # connection that was just closed, for example by a proxy whose gateway is not up yet,
        # proves nothing.
        return "ALERT" in (error.reason or "")
    except OSError:
        return False
    return True
