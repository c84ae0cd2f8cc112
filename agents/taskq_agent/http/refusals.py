"""Errors that stand for HTTP answers other than success, or for a wrong scheme."""

from __future__ import annotations

import json
import math
import socket
import ssl
from http import HTTPStatus
from http.client import HTTPException
from typing import Optional, Tuple

from taskq_agent.errors import (
    AnswerUnreadable,
    Refused,
    SessionLost,
    TransportError,
    TransportFailed,
)
from taskq_agent.http.gateways import GatewayAddress
from taskq_agent.text import clean

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


_MAX_TEXT_CHARS = 300
_MAX_RETRY_AFTER_S = 300.0
_REFUSED = frozenset({400, 401, 403, 404, 405, 413, 422})
_BUSY = "busy"
_UNREADABLE = "unreadable"


class GatewayFailed(TransportFailed):
    """This gateway failed, not the queue: another gateway may serve."""


class GatewayUnreadable(GatewayFailed, AnswerUnreadable):
    """The answer of this gateway cannot be read; another gateway's may be readable."""


def error_of(
    status: int, retry_after: Optional[str], body: bytes, *, with_session: bool
) -> TransportError:
    """Return the error that an answer stands for.

    with_session: a session authorised the request, so a 401 of taskq means that the session is
    lost.
    """
    code, message = _code_and_message(body)
    text = f"{status} {code}: {message}".strip(" :")
    of_session = status == HTTPStatus.GONE or (status == HTTPStatus.UNAUTHORIZED and with_session)
    if code and of_session:
        return SessionLost(text)
    # Without taskq's code the answer comes from something in between, such as a proxy that loads
    # its routes: a repetition may come through, unless the request is too large for it.
    if status in _REFUSED and (code or status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE):
        return Refused(text)
    if code == _UNREADABLE:
        return GatewayUnreadable(text)
    # Any other 503 is a fault of this gateway: it drains, cannot reach its database, or a proxy
    # answers for it. On overload the agent stays: the other gateways would get more load.
    if status == HTTPStatus.TOO_MANY_REQUESTS or code == _BUSY:
        return TransportFailed(text, retry_after_s(retry_after))
    return GatewayFailed(text, retry_after_s(retry_after))


def _code_and_message(body: bytes) -> Tuple[str, str]:
    try:
        error = json.loads(body)["error"]
        found = str(error["code"]), str(error["message"])
    except (ValueError, LookupError, TypeError, RecursionError):
        # for example the page of a proxy
        found = "", body[: 4 * _MAX_TEXT_CHARS].decode("utf-8", "replace")
    code, message = (" ".join(clean(text).split())[:_MAX_TEXT_CHARS] for text in found)
    return code, message


def retry_after_s(retry_after: Optional[str]) -> Optional[float]:
    """Return the seconds in a header Retry-After, 300 at most; None if it holds none."""
    try:
        seconds = float(retry_after or "")
    except ValueError:  # absent, or a date, which would need synchronised clocks
        return None
    return min(max(seconds, 0.0), _MAX_RETRY_AFTER_S) if math.isfinite(seconds) else None
