"""Transport over HTTP: JSON to one of several gateways, on kept connections."""

from __future__ import annotations

import functools
import json
import logging
import os
import re
import stat
import threading
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Callable, Dict, Iterator, Mapping, Optional, Tuple, TypeVar, final

from taskq_agent.errors import SessionLost, TransportFailed
from taskq_agent.http.answers import (
    GatewayFailed,
    GatewayUnreached,
    GatewayUnreadable,
    altered,
    check_origin,
    error_of,
    wrong_scheme,
)
from taskq_agent.http.connections import (
    Connections,
    Dialer,
    HttpRequest,
    RequestCanceller,
    chunks_of,
    read_all,
)
from taskq_agent.http.gateways import GatewayAddress, GatewayList
from taskq_agent.protocol import (
    SILENT_END,
    Answer,
    Heartbeat,
    HeartbeatAnswer,
    Held,
    Hello,
    Input,
    Orders,
    Request,
    SessionEnd,
    Welcome,
)
from taskq_agent.task_messages import CheckpointAnswer, CheckpointRequest, FollowingAnswer
from taskq_agent.wire import decoded, dumps

log = logging.getLogger(__name__)

ANSWER_S = 30.0

_MAX_ANSWER_BYTES = 64 << 20
_MAX_ERROR_BYTES = 1 << 20
_MAX_TOKEN_BYTES = 4_096
_JSON = "application/json"
_NO_BLOB = Input("", 0)

T = TypeVar("T")

_checkpoint_answer = functools.partial(decoded, CheckpointAnswer)
_heartbeat_answer = functools.partial(decoded, FollowingAnswer)


@final
class HttpTransport:
    """Transport to the queue through gateways. Thread-safe.

    token: the site's token, which opens sessions; a secret. The token of the session stays in
    memory only. A request that fails at one gateway is tried at one other before it counts as
    failed. Use it as a context manager: the connections are closed at the end.
    """

    def __init__(
        self, gateways: GatewayList, token: str, dialer: Dialer, *, release: str = ""
    ) -> None:
        self._gateways = gateways
        self._token = token
        self._connections = Connections(dialer)
        self._headers = {"User-Agent": f"taskq-agent/{release or 'unknown'}"}
        self._lock = threading.Lock()
        self._session: Optional[Tuple[int, str]] = None
        self._cancelled_lease = ""
        self._cancellers: Dict[str, RequestCanceller] = {}

    def __enter__(self) -> HttpTransport:
        return self

    def __exit__(self, *_: object) -> None:
        self._connections.close()

    def open(self, hello: Hello) -> Welcome:
        """Open a session, or find the one that this key has opened."""
        http_request = self._post("/v1/sessions", hello, self._token)
        _, welcome = self._ask(http_request, _welcome, with_session=False)
        with self._lock:
            self._session = welcome.session, welcome.token
        return welcome

    def exchange(self, request: Request) -> Answer:
        """Report and claim in one round trip, which may take `request.wait_s` longer."""
        http_request = self._post("/v1/exchange", request, self._token_of(request.session))
        with self._cancellable(request) as canceller:
            wait_s = ANSWER_S + request.wait_s
            address, answer = self._ask(http_request, _answer, wait_s=wait_s, canceller=canceller)
        self._follow(address, answer.orders)
        return answer

    def cancel_exchange(self, request: Request) -> None:
        """Make the exchange of this claim fail, whether or not it has begun."""
        with self._lock:
            self._cancelled_lease = request.lease
            canceller = self._cancellers.get(request.lease)
        if canceller is not None:
            canceller.cancel()

    def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        """Keep the session alive."""
        http_request = self._post("/v1/beat", heartbeat, self._token_of(heartbeat.session))
        address, answer = self._ask(http_request, _heartbeat_answer)
        self._follow(address, answer.orders)
        return answer

    def close(self, session: int, end: SessionEnd = SILENT_END) -> None:
        """End the session; other agents get its held tasks at once."""
        token = self._token_of(session)
        body = dumps(end).encode()
        http_request = HttpRequest("DELETE", "/v1/session", body, self._headers_with(token, _JSON))
        self._ask(http_request, _no_content)
        with self._lock:
            self._session = None

    def read_blob(self, digest: str, offset: int) -> Iterator[bytes]:
        """Yield a blob from an offset to its end; see `Blobs`."""
        headers = {**self._headers_with(self._any_token()), "Range": f"bytes={offset}-"}
        http_request = HttpRequest("GET", f"/v1/blobs/{digest}", headers=headers)
        address = self._gateways.first()
        with (
            _without_session(),
            self._gateway_errors(address),
            self._connections.answered(address, http_request, timeout_s=ANSWER_S) as response,
        ):
            check_origin(response)
            if response.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                return  # the offset is at the end of the blob
            _check(response, with_session=True)
            skip = 0 if response.status == HTTPStatus.PARTIAL_CONTENT else offset
            for chunk in chunks_of(response):
                if skip < len(chunk):
                    yield chunk[skip:]
                skip = max(0, skip - len(chunk))
            self._gateways.served(address)

    def write_blob(self, digest: str, data: bytes) -> None:
        """Store a blob; see `Blobs`. Refused also if the data has another digest."""
        headers = self._headers_with(self._any_token(), "application/octet-stream")
        with _without_session():
            self._ask(HttpRequest("PUT", f"/v1/blobs/{digest}", data, headers), _no_content)

    def find_checkpoint(self, held: Held) -> Optional[Input]:
        """Return the blob with the last checkpoint of a task; see `Blobs`."""
        answer = self._checkpoint(held)
        return Input(answer.digest, answer.size) if answer.digest else None

    def memory_failures(self, held: Held) -> int:
        """Return how often a task has run out of memory; see `Blobs`."""
        return self._checkpoint(held).memory_failures

    def save_checkpoint(self, held: Held, saved: Input) -> bool:
        """Make a stored blob the checkpoint of a task; see `Blobs`."""
        return self._checkpoint(held, saved).held

    def save_output(self, held: Held, saved: Input) -> bool:
        """Make a stored blob the output files of an attempt; see `TaskBlobs`."""
        return self._checkpoint(held, saved, "/v1/output").held

    def _checkpoint(
        self, held: Held, saved: Input = _NO_BLOB, path: str = "/v1/checkpoint"
    ) -> CheckpointAnswer:
        request = CheckpointRequest(held.campaign, held.task, held.lease, saved.digest, saved.size)
        with _without_session():
            http_request = self._post(path, request, self._any_token())
            return self._ask(http_request, _checkpoint_answer)[1]

    # One request, at one or two gateways

    def _ask(
        self,
        http_request: HttpRequest,
        decode: Callable[[bytes], T],
        *,
        with_session: bool = True,
        wait_s: float = ANSWER_S,
        canceller: Optional[RequestCanceller] = None,
    ) -> Tuple[GatewayAddress, T]:
        """Return the answer and its gateway: the first one or, if that fails, one other."""

        def at(address: GatewayAddress) -> Tuple[GatewayAddress, T]:
            with (
                self._gateway_errors(address, canceller),
                self._connections.answered(
                    address, http_request, timeout_s=wait_s, canceller=canceller
                ) as response,
            ):
                _check(response, with_session=with_session)
                body = read_all(response, most_bytes=_MAX_ANSWER_BYTES, within_s=ANSWER_S)
                try:
                    answer = decode(body)
                except (json.JSONDecodeError, UnicodeDecodeError) as error:
                    raise altered(response, error) from error
            self._gateways.served(address)
            return address, answer

        first = self._gateways.first()
        try:
            return at(first)
        except GatewayFailed as error:
            other = self._gateways.first()
            if other == first:
                raise
            log.info("%s; asking %s", error, other)
        return at(other)

    @contextmanager
    def _gateway_errors(
        self, address: GatewayAddress, canceller: Optional[RequestCanceller] = None
    ) -> Iterator[None]:
        """Translate errors, adding the gateway's address; avoid a gateway that failed."""
        try:
            yield
        except GatewayFailed as error:
            text = self._wrong_scheme(address, error) or f"{address}: {error}"
            self._gateways.avoid(address)
            raise type(error)(text, error.retry_after_s) from error
        except (OSError, HTTPException, ValueError) as error:
            if canceller is not None and canceller.cancelled:
                raise TransportFailed("broken off") from error
            wrong = self._wrong_scheme(address, error)
            self._gateways.avoid(address)
            text = wrong or f"{address}: {str(error) or type(error).__name__}"
            raise GatewayUnreached(text) from error

    def _wrong_scheme(self, address: GatewayAddress, error: Exception) -> Optional[str]:
        served = self._gateways.has_served(address)
        return None if served else wrong_scheme(address, error)

    @contextmanager
    def _cancellable(self, request: Request) -> Iterator[Optional[RequestCanceller]]:
        if request.wait_s <= 0:
            yield None
            return
        with self._lock:
            if request.lease == self._cancelled_lease:
                raise TransportFailed("broken off before it began")
            canceller = self._cancellers[request.lease] = RequestCanceller()
        try:
            yield canceller
        finally:
            with self._lock:
                del self._cancellers[request.lease]

    # Shared by all requests

    def _post(self, path: str, message: object, token: str) -> HttpRequest:
        return HttpRequest("POST", path, dumps(message).encode(), self._headers_with(token, _JSON))

    def _headers_with(self, token: str, content: Optional[str] = None) -> Mapping[str, str]:
        headers = {**self._headers, "Accept": _JSON, "Authorization": f"Bearer {token}"}
        if content is not None:
            headers["Content-Type"] = content
        return headers

    def _token_of(self, session: int) -> str:
        with self._lock:
            current = self._session
        if current is None or current[0] != session:
            raise SessionLost(f"session {session} has been given up")
        return current[1]

    def _any_token(self) -> str:
        with self._lock:
            if self._session is None:
                raise TransportFailed("no session is open now")
            return self._session[1]

    def _follow(self, address: GatewayAddress, orders: Orders) -> None:
        self._gateways.learn(orders.gateways)
        if orders.elsewhere:
            self._gateways.avoid(address)
            log.info("%s is going away; asking %s next", address, self._gateways.first())


@contextmanager
def _without_session() -> Iterator[None]:
    """Make blob transfers wait for the next session, which the core opens, if this one is lost."""
    try:
        yield
    except SessionLost as error:
        raise TransportFailed(str(error)) from error


def _check(response: HTTPResponse, *, with_session: bool) -> None:
    check_origin(response)
    if HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
        return
    body = read_all(response, most_bytes=_MAX_ERROR_BYTES, within_s=ANSWER_S)
    retry_after = response.getheader("Retry-After")
    raise error_of(response.status, retry_after, body, with_session=with_session)


def _welcome(body: bytes) -> Welcome:
    welcome = decoded(Welcome, body)
    if welcome.heartbeat_s <= 0 or welcome.lease_s <= 0 or not is_sendable(welcome.token):
        raise ValueError("a session that nobody can use")
    return welcome


def _answer(body: bytes) -> Answer:
    try:
        return decoded(Answer, body)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise  # the answer comes from something in between
    except ValueError as error:
        raise GatewayUnreadable(f"its answer cannot be read: {error}") from error


def _no_content(_: bytes) -> None:
    return None


def token_in(file: Path) -> str:
    """Return the token in a file; warn if other users can read it. Raises OSError."""
    with file.open("rb") as stream:
        mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
        token = stream.read(_MAX_TOKEN_BYTES).decode("ascii", "replace").strip()
    if mode & (stat.S_IRGRP | stat.S_IROTH):  # batch systems stage files in their own ways
        log.warning("%s can be read by other users: chmod 600", file)
    return token


def is_sendable(token: str) -> bool:
    """Return whether a token is valid in a header."""
    return re.fullmatch(r"[!-~]+", token) is not None
