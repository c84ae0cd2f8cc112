"""Answers of gateways: their messages, decoded and checked, and the errors that they stand for.

The messages are the dataclasses of `protocol`; their annotations define what is accepted. Unknown
members are ignored: the other side may have a later release.
"""

from __future__ import annotations

import collections.abc
import functools
import json
import math
import socket
import ssl
from dataclasses import MISSING, Field, fields, is_dataclass
from http import HTTPStatus
from http.client import HTTPException
from typing import (
    Any,
    Callable,
    Dict,
    List,
    Optional,
    Tuple,
    Type,
    TypeVar,
    Union,
    get_args,
    get_origin,
)
from typing import get_type_hints as type_hints

from taskq_agent.errors import (
    AnswerUnreadable,
    Refused,
    SessionLost,
    TransportError,
    TransportFailed,
)
from taskq_agent.http.gateways import GatewayAddress
from taskq_agent.text import clean

T = TypeVar("T")
Reader = Callable[[Any, str], Any]


def decoded(kind: Type[T], data: bytes) -> T:
    """Return the message of this kind; ValueError if the bytes hold none.

    Numbers are finite, and text can be encoded. Free values may be nested as deep as Python reads:
    a task that is too deep for later steps must not keep others from their answer.
    """
    try:
        value = json.loads(data.decode(), parse_constant=_refused)
        if b"\\ud" in data.lower():  # half a surrogate pair would fail wherever it is written
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    annotation: Any = kind
    message: T = _reader(annotation)(value, kind.__name__)
    return message


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


@functools.lru_cache(maxsize=None)
def _reader(kind: Any) -> Reader:
    """Return the function that reads values of an annotation; its arguments: value and place."""
    if is_dataclass(kind):
        return _message(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Union:  # the only one in use is Optional
        inner = _reader(arguments[0])
        return lambda value, where: None if value is None else inner(value, where)
    if origin is tuple:
        return _array(_reader(arguments[0]))
    if origin is collections.abc.Mapping:
        # A free value is taken as it is.
        return _object(_reader(arguments[1]) if arguments[1] is not Any else lambda one, _: one)
    if kind is float:
        return _number
    return _plain(kind)


def _message(kind: Any) -> Reader:
    hints = type_hints(kind)
    members: List[Field[Any]] = list(fields(kind))
    readers = {member.name: _reader(hints[member.name]) for member in members}
    needed = {
        member.name
        for member in members
        if member.default is MISSING and member.default_factory is MISSING
    }

    def read(value: Any, where: str) -> Any:
        _check(isinstance(value, dict), where, "an object")
        if missing := needed - value.keys():
            raise ValueError(f"{where} has no {min(missing)}")
        return kind(
            **{
                name: reader(value[name], f"{where}.{name}")
                for name, reader in readers.items()
                if name in value
            }
        )

    return read


def _array(inner: Reader) -> Reader:
    def read(value: Any, where: str) -> Any:
        _check(isinstance(value, list), where, "an array")
        return tuple(inner(item, where) for item in value)

    return read


def _object(inner: Reader) -> Reader:
    def read(value: Any, where: str) -> Dict[str, Any]:
        _check(isinstance(value, dict), where, "an object")
        return {name: inner(item, where) for name, item in value.items()}

    return read


def _number(value: Any, where: str) -> float:
    try:
        number = float(value) if type(value) in (int, float) else math.nan
    except OverflowError:  # of an int of very many digits
        number = math.inf
    _check(math.isfinite(number), where, "a finite number")
    return number


def _plain(kind: type) -> Reader:
    def read(value: Any, where: str) -> Any:
        _check(type(value) is kind, where, f"of type {kind.__name__}")  # a bool is not an int here
        return value

    return read


def _check(fine: bool, where: str, what: str) -> None:
    if not fine:
        raise ValueError(f"{where} is not {what}")


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
