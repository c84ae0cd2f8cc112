"""Named statements over HTTP, at a gateway."""

from __future__ import annotations

import gzip
import json
import os
import random
import ssl
import time
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from datetime import datetime
from decimal import Decimal
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Final, TypeVar

from taskq.db.access import Queries, check_process
from taskq.db.catalogue import find
from taskq.db.gateway_answers import Refusal, answered_rows, read_refusal
from taskq.db.queue_address import manager_token
from taskq.db.rows import Row
from taskq.model.errors import NotFound, TaskqError, Unavailable, UsageError
from taskq.model.version import VERSION
from taskq_agent.errors import LostOnTheWay
from taskq_agent.http.answers import altered, check_origin, wrong_scheme
from taskq_agent.http.connections import (
    Connections,
    Dialer,
    HttpRequest,
    read_all,
    tls_context,
    why_not_trusted,
)
from taskq_agent.http.gateways import GatewayAddress, GatewayList

T = TypeVar("T")

#: Seconds for each step of an exchange with the gateway, and for a whole answer.
STEP_S: Final = 60.0
ANSWER_S: Final = 600.0
#: Seconds for which requests are repeated while the gateway is away or busy; the longest pause.
PATIENCE_S: Final = 60.0
LONGEST_PAUSE_S: Final = 10.0
#: From this many characters on, a text goes unencoded behind the other parameters.
_LONG_CHARS: Final = 4_096
_WORTH_GZIP: Final = 1_024
_MAX_ERROR_BYTES: Final = 1 << 20
_MAX_ANSWER_BYTES: Final = 256 << 20


class GatewayQueries(Queries):
    """Runs named statements at a gateway. Thread-safe.

    server: its name in messages. Errors are those of a connection to PostgreSQL, and `Unavailable`
    if the gateway does not answer; see also `PATIENCE_S`.
    """

    def __init__(
        self, url: str, token: str, *, ca: Path | None = None, patience_s: float = PATIENCE_S
    ) -> None:
        """Make no connection yet; raise `UsageError` for a wrong address.

        url: of one gateway, or of several, joined by commas. ca: certificates of the authorities to
        trust, instead of the system's.
        """
        try:
            self._gateways = GatewayList(url.split(","))
            self._dialer = Dialer(tls_context(ca))
        except ValueError as error:
            raise UsageError(str(error)) from None
        self._token = token
        self._patience_s = patience_s
        self._connections = Connections(self._dialer)
        self._process = os.getpid()
        self.server: Final = f"the gateway at {url.replace(',', ' or ')}"

    def close(self) -> None:
        """Close the connections; requests of other threads come to their end first."""
        self._connections.close()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed; a closed one answers nothing."""
        return self._connections.is_closed

    def impatient(self) -> GatewayQueries:
        """Return the same gateway without repetitions, for callers that ask again anyway."""
        other = copy(self)
        other._patience_s = 0.0  # noqa: SLF001  # its own
        return other

    def open(self) -> None:
        """Ask each gateway until one answers, so that a wrong address or token fails at once."""
        for _ in self._gateways.all()[1:]:
            with suppress(_Broken):
                return self._ask()
        return self._ask()

    def _ask(self) -> None:
        try:
            with self._asked(_request("brake", {}, self._token), self._connections) as response:
                read_all(response, most_bytes=_MAX_ANSWER_BYTES, within_s=STEP_S)
        except Refusal as refused:
            raise refused.error("brake") from None

    def rows(self, name: str, /, **values: object) -> list[Row]:
        """Return all rows of a statement; of a paged one, at least one row if there is any."""
        request = _request(name, values, self._token)
        try:
            return answered_rows(self._bytes(request, once=not find(name).is_repeatable))
        except ValueError as error:
            raise Unavailable(f"{self.server}: {error}") from None
        except Refusal as refused:
            tasks = values.get("tasks")
            if refused.code == "too_large" and name == "results_of" and isinstance(tasks, list):
                half = len(tasks) // 2
                if half:
                    return self.rows(name, **values | {"tasks": tasks[:half]}) + self.rows(
                        name, **values | {"tasks": tasks[half:]}
                    )
            raise refused.error(name) from refused

    def results_when_ended(self, campaign: int, tasks: Sequence[int], within_s: float) -> list[Row]:
        """Return results of some tasks as soon as one has ended; none if it ended otherwise.

        None either if the time is up. Raise `NotOverGateway` if the gateway is too old to wait,
        `Unavailable` at once if it cannot now.
        """
        values = {"campaign": campaign, "tasks": tasks}
        request = _request("results_when_ended", values, self._token, wait_s=within_s)
        try:
            return answered_rows(self.impatient()._bytes(request, once=False))  # noqa: SLF001
        except ValueError as error:
            raise Unavailable(f"{self.server}: {error}") from None
        except Refusal as refused:
            raise refused.error("results_when_ended") from None

    @contextmanager
    def blob(
        self, digest: str, offset: int = 0, end: int | None = None, *, method: str = "GET"
    ) -> Iterator[HTTPResponse]:
        """Provide a blob from an offset on; raise `NotFound` if there is none."""
        last = "" if end is None else end - 1
        place = {"Range": f"bytes={offset}-{last}"} if offset or end is not None else {}
        headers = {**_headers(self._token), **place}
        request = HttpRequest(method, f"/v1/blobs/{digest}", headers=headers)
        with ExitStack() as stack:

            def ask() -> HTTPResponse:
                return stack.enter_context(self._asked(request, self._connections))

            try:
                yield self._patiently(ask)
            except Refusal as refused:
                raise _of_blob(refused, digest) from None

    def upload(self, digest: str, size: int, chunks: Iterable[bytes]) -> None:
        """Store a blob; each try iterates over its chunks anew."""
        headers = {**_headers(self._token), "Content-Length": str(size)}

        def ask() -> None:
            address = self._gateways.first()
            with self._translated(address):
                connection = self._dialer.dial(address)
                try:
                    connection.sock.settimeout(STEP_S)
                    # It may have sent a reason before it closed.
                    with suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
                        connection.http.request(
                            "PUT",
                            f"{connection.before_path}/v1/blobs/{digest}",
                            iter(chunks),
                            {**headers, **connection.headers},
                        )
                    _check(connection.http.getresponse(), "PUT")
                finally:
                    connection.close()

        try:
            self._patiently(ask)
        except Refusal as refused:
            raise _of_blob(refused, digest) from None

    def _bytes(self, request: HttpRequest, *, once: bool) -> bytes:
        """Return the body of the answer.

        once: see `_patiently`. Such a request has a connection of its own, since a kept one may end
        at any time.
        """

        def ask() -> bytes:
            connections = Connections(self._dialer) if once else self._connections
            try:
                with self._asked(request, connections) as response:
                    body = read_all(response, most_bytes=_MAX_ANSWER_BYTES, within_s=ANSWER_S)
                    try:
                        return _decompressed(body)
                    except ValueError as error:
                        raise altered(response, error) from error
            finally:
                if once:
                    connections.close()

        return self._patiently(ask, once=once)

    def _patiently(self, ask: Callable[[], T], *, once: bool = False) -> T:
        """Return what a request gives; repeat it while that is harmless and may help.

        once: a repetition might get another answer, so do not repeat after an answer may be lost.
        """
        deadline = time.monotonic() + self._patience_s
        pause_s = 0.5
        while True:
            try:
                return ask()
            except Refusal as refused:
                if not refused.is_passing or (once and not refused.is_turned_away):
                    raise
                wait_s = max(pause_s, refused.retry_after_s or 0.0)
                if time.monotonic() + wait_s > deadline:
                    raise
            except _Broken as broken:
                wait_s = pause_s
                if once or not broken.is_passing or time.monotonic() + wait_s > deadline:
                    raise Unavailable(str(broken)) from broken.__cause__
            time.sleep(min(wait_s, LONGEST_PAUSE_S) * random.uniform(0.7, 1.3))  # noqa: S311
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    @contextmanager
    def _asked(self, request: HttpRequest, connections: Connections) -> Iterator[HTTPResponse]:
        check_process(self._process)
        if self.is_closed:
            raise Unavailable(f"the connection to {self.server} is closed")
        address = self._gateways.first()
        with (
            self._translated(address),
            connections.answered(address, request, timeout_s=STEP_S) as response,
        ):
            accepted = request.headers.get("Accept-Encoding", "")
            _check(response, request.method, accepted=(accepted,))
            yield response

    @contextmanager
    def _translated(self, address: GatewayAddress) -> Iterator[None]:
        """Translate errors of the connection; after one, prefer another gateway for a while."""
        try:
            yield
            self._gateways.served(address)
        except ssl.SSLCertVerificationError as error:
            raise _Broken(
                f"{self.server} shows a certificate that is not trusted: "
                f"{why_not_trusted(error, 'TASKQ_CA')}",
                is_passing=False,
            ) from error
        except (OSError, HTTPException, ValueError, LostOnTheWay) as error:
            served = self._gateways.has_served(address)
            wrong = None if served else wrong_scheme(address, error)
            self._gateways.avoid(address)
            raise _Broken(
                wrong or f"cannot reach {self.server}: {str(error) or type(error).__name__}",
                is_passing=wrong is None,
            ) from error


def open_gateway(
    url: str, *, token_file: str | Path | None, ca: str | Path | None
) -> GatewayQueries:
    """Return statements at a gateway that has answered; arguments and errors as of `connect`."""
    authorities = ca or os.environ.get("TASKQ_CA") or None
    gateway = GatewayQueries(url, manager_token(token_file), ca=authorities and Path(authorities))
    try:
        gateway.open()
    except BaseException:
        gateway.close()
        raise
    return gateway


class _Broken(Unavailable):
    """No answer came. is_passing: whether one may come later."""

    def __init__(self, message: str, *, is_passing: bool) -> None:
        super().__init__(message)
        self.is_passing = is_passing


def _of_blob(refused: Refusal, digest: str) -> TaskqError:
    if refused.status == HTTPStatus.NOT_FOUND:
        return NotFound(f"the gateway has no blob {digest}")
    return refused.error("a blob")


def _check(response: HTTPResponse, method: str, *, accepted: Container[str] = ()) -> None:
    """Raise the `Refusal` that an answer is, or `LostOnTheWay` if no gateway has sent it."""
    check_origin(response, accepted)
    if response.status in {HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT, HTTPStatus.NO_CONTENT}:
        return
    body = read_all(response, most_bytes=_MAX_ERROR_BYTES, within_s=STEP_S)
    refusal = read_refusal(response.status, response.getheader("Retry-After"), body)
    if not refusal.code and method != "HEAD":  # something on the way has replaced the body
        raise LostOnTheWay(f"{refusal.status}: {refusal.message}")
    raise refusal


def _headers(token: str) -> dict[str, str]:
    return {"User-Agent": f"taskq/{VERSION}", "Authorization": f"Bearer {token}"}


def home(database: Queries) -> str:
    """Return what precedes the default paths of calls: the first campaign of a gateway's token."""
    if not isinstance(database, GatewayQueries):
        return ""
    paths = sorted(database.value("token_paths"))
    return "" if "/" in paths else paths[0]


def _request(
    name: str, values: Mapping[str, object], token: str, *, wait_s: float | None = None
) -> HttpRequest:
    """Return the request for a statement; see `taskq.gateway.manager_bodies`."""
    texts = {key: value for key, value in values.items() if isinstance(value, str)}
    rest = max(texts, key=lambda key: len(texts[key]), default=None)
    if rest is not None and len(texts[rest]) < _LONG_CHARS:
        rest = None
    try:
        body = json.dumps(
            {key: value for key, value in values.items() if key != rest},
            default=_as_text,
            ensure_ascii=False,
        ).encode()
        if rest is not None:
            body += b"\n" + texts[rest].encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"the gateway takes only valid Unicode: {error.object!r:.80}") from None
    headers = {**_headers(token), "Content-Type": "application/json", "Accept-Encoding": "gzip"}
    if len(body) >= _WORTH_GZIP:
        body = gzip.compress(body, 3)
        headers["Content-Encoding"] = "gzip"
    path = f"/v1/manage/{name}" + ("" if rest is None else f"?rest={rest}")
    path += "" if wait_s is None else f"?wait_s={wait_s:g}"
    return HttpRequest("POST", path, body, headers)


def _as_text(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"{value!r:.80} is no value of a statement")


def _decompressed(body: bytes) -> bytes:
    """Return an answer uncompressed, at most four times the most that a gateway sends."""
    stream = zlib.decompressobj(31)
    try:
        data = stream.decompress(body, 4 * _MAX_ANSWER_BYTES)
    except zlib.error as error:
        raise ValueError(f"the answer is not compressed as it should be: {error}") from None
    if not stream.eof:
        raise ValueError("the answer is incomplete")
    return data
