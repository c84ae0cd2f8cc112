"""Answers of gateways: which are known as theirs, and the errors that they stand for.

Proxies, filters and portals on the way answer in the place of a gateway, with any status, so that
nothing but `ANSWER_HEADER` makes an answer the gateway's (`check_origin`). Its errors have a body
in one form too. Anything else is a fault of the way, whatever its status says.
"""

from __future__ import annotations

import json
import math
import re
import socket
import ssl
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from typing import Any, Container, Mapping, Optional

from taskq_agent.errors import (
    AnswerUnreadable,
    LostOnTheWay,
    Refused,
    SessionLost,
    TransportError,
    TransportFailed,
)
from taskq_agent.http.connections import chunks_of
from taskq_agent.http.gateways import GatewayAddress
from taskq_agent.protocol import ANSWER_HEADER
from taskq_agent.text import clean

_PROBE_S = 5.0
# OpenSSL's reasons for an answer that is not TLS; they differ by version.
_NO_TLS = frozenset(
    {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG"}
)

_MAX_TEXT_CHARS = 300
_MAX_RETRY_AFTER_S = 300.0
_REFUSED = frozenset({400, 401, 403, 404, 405, 413, 422})
_MAX_LINE_CHARS = 120
_MAX_SERVER_CHARS = 40
_PLAIN = ("", "identity")
# What is not closed goes on to the end: looking for the end of each would take quadratic time.
_NO_TEXT = re.compile(
    r"(?is)<(style|script)\b.*?(?:</\1>|\Z)|<!--.*?(?:-->|\Z)|</?[a-z!][^>]*(?:>|\Z)"
)
#: What to do about an answer of something else, by its status; otherwise by its hundreds.
_ADVICE = {
    401: "it wants a login",
    403: "it refuses this request or what it holds, as web firewalls do; let taskq through there",
    404: "is the path of the address right?",
    407: "it wants a login: http_proxy=http://USER:PASSWORD@HOST:PORT",
    413: "raise its limit on bodies, such as client_max_body_size of nginx",
    429: "raise its limit on how often one may ask",
    2: f"another program, a portal that wants a login, or something takes away {ANSWER_HEADER}",
    3: "give the address of a gateway",
    4: "it refuses this request or what it holds; let taskq through there",
    5: "it does not reach the gateway, or not in time",
}
_BUSY = "busy"
_UNREADABLE = "unreadable"


def no_tls(address: GatewayAddress, error: Exception) -> Optional[str]:
    """Return what is wrong if TLS failed because the other side does not speak it; else None."""
    if address.scheme == "https" and isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
        return f"{address}: no TLS is spoken there; is it http://{_rest(address)}?"
    return None


def wrong_scheme(address: GatewayAddress, error: Exception) -> Optional[str]:
    """Return what is wrong if the other scheme would work; may probe what is at the address.

    error: what came of a request there. Some servers answer plain HTTP at a TLS port with a page.
    """
    may_be_tls = isinstance(error, (HTTPException, ConnectionError, LostOnTheWay))
    may_be_tls = may_be_tls and not isinstance(error, ConnectionRefusedError)
    if address.scheme == "http" and may_be_tls and _speaks_tls(address):
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


class GatewayFailed(TransportFailed):
    """This gateway failed, not the queue: another gateway may serve."""


class GatewayUnreadable(GatewayFailed, AnswerUnreadable):
    """The answer of this gateway cannot be read; another gateway's may be readable."""


class GatewayUnreached(GatewayFailed, LostOnTheWay):
    """Nothing came from the gateway: another gateway may be reached."""


def is_from_gateway(response: HTTPResponse) -> bool:
    """Return whether a gateway has sent this answer; whatever is on the way adds no such header."""
    return response.getheader(ANSWER_HEADER) is not None


def check_origin(response: HTTPResponse, asked: Container[str] = ()) -> None:
    """Raise `GatewayUnreached`, with what answered, unless a gateway has sent this answer.

    asked: the encodings that the request accepts; in any other, the body is not the gateway's.
    """
    if is_from_gateway(response):
        encoding = (response.getheader("Content-Encoding") or "").strip().lower()
        if encoding not in _PLAIN and encoding not in asked:
            raise altered(response, f"{encoding[:_MAX_SERVER_CHARS]} packs it, unasked")
        return
    page = b""
    with suppress(OSError, HTTPException):  # its status is enough
        page = next(chunks_of(response), b"")
    server = _one_line(response.getheader("Server") or "", _MAX_SERVER_CHARS)
    location = _one_line(response.getheader("Location") or "", _MAX_LINE_CHARS)
    status, line = response.status, first_line(page)
    advice = advice_on(status)
    said = f" (it redirects to {location})" if location else f" (it says {line!r})" if line else ""
    text = f"{status} from {server or 'something else'}, not from a gateway: {advice}{said}"
    raise GatewayUnreached(text, retry_after_s(response.getheader("Retry-After")))


def altered(response: HTTPResponse, how: object) -> GatewayUnreached:
    """Return the error of a gateway's answer that something on the way has changed."""
    names = (response.getheader(name) for name in ("Via", "Server"))
    named = _one_line(", ".join(filter(None, names)), _MAX_SERVER_CHARS)
    said = _one_line(str(how), _MAX_LINE_CHARS)
    return GatewayUnreached(
        f"something on the way, {named or 'without a name'}, has changed the gateway's answer "
        f"({said}): let it pass taskq's answers on as they are"
    )


def advice_on(status: int) -> str:
    """Return what to do about an answer with this status that something on the way has sent."""
    return _ADVICE.get(status) or _ADVICE.get(status // 100, "what is there?")


def first_line(page: bytes) -> str:
    """Return the first words of a page, without its markup."""
    text = _NO_TEXT.sub("\n", page.decode("utf-8", "replace"))
    lines = (_one_line(line, _MAX_LINE_CHARS) for line in text.splitlines())
    return next(filter(None, lines), "")


def _one_line(text: str, most: int) -> str:
    return " ".join(clean(text).split())[:most]


def error_of(
    status: int, retry_after: Optional[str], body: bytes, *, with_session: bool
) -> TransportError:
    """Return the error that an answer of a gateway stands for; see `check_origin`.

    with_session: a session authorised the request, so a 401 of taskq means that the session is
    lost.
    """
    error = error_in(body)
    if error is None:  # something on the way has replaced the body
        return GatewayUnreached(f"{status}: {first_line(body)}", retry_after_s(retry_after))
    code, message = (_one_line(error[name], _MAX_TEXT_CHARS) for name in ("code", "message"))
    text = f"{status} {code}: {message}"
    of_session = status == HTTPStatus.GONE or (status == HTTPStatus.UNAUTHORIZED and with_session)
    if of_session:
        return SessionLost(text)
    if status in _REFUSED:
        return Refused(text)
    if code == _UNREADABLE:
        return GatewayUnreadable(text)
    # Any other 503 is a fault of this gateway: it drains, or cannot reach its database. On overload
    # the agent stays: the other gateways would get more load.
    if status == HTTPStatus.TOO_MANY_REQUESTS or code == _BUSY:
        return TransportFailed(text, retry_after_s(retry_after))
    return GatewayFailed(text, retry_after_s(retry_after))


def error_in(body: bytes) -> Optional[Mapping[str, Any]]:
    """Return the error that a body states in the gateway's form; None if it has another."""
    try:
        error = json.loads(body)["error"]
        texts = error["code"], error["message"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    plain = isinstance(error, dict) and error["code"] and all(isinstance(it, str) for it in texts)
    return error if plain else None


def retry_after_s(retry_after: Optional[str]) -> Optional[float]:
    """Return the seconds in a header Retry-After, 300 at most; None if it holds none."""
    try:
        seconds = float(retry_after or "")
    except ValueError:  # absent, or a date, which would need synchronised clocks
        return None
    return min(max(seconds, 0.0), _MAX_RETRY_AFTER_S) if math.isfinite(seconds) else None
