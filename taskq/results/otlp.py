"""A receiver of traces, over HTTP with binary OTLP: `opentelemetry.io/docs/specs/otlp`."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from http.client import HTTPException
from typing import Final
from urllib.parse import unquote, urlsplit

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from taskq.model.errors import Unavailable, UsageError
from taskq.model.version import VERSION
from taskq.results.traces import Attributes, Trace
from taskq_agent.http.answers import advice_on, first_line, wrong_scheme
from taskq_agent.http.connections import Dialer
from taskq_agent.http.gateways import GatewayAddress

TIMEOUT_S: Final = 30.0
_PATH: Final = "/v1/traces"
_PORTS: Final = {"http": 80, "https": 443}
#: Answers after which a client should retry later, by the specification.
_LATER: Final = frozenset({429, 502, 503, 504})
_OK: Final = 200
_TOO_LARGE: Final = 413
_PAGE: Final = "text/html"
_MAX_ANSWER: Final = 65_536
_SHOWN_CHARS: Final = 200


class Receiver:
    """Sends traces to an address. url: without a path, /v1/traces is added.

    headers: as in `OTEL_EXPORTER_OTLP_HEADERS`, `NAME=VALUE,...`, percent-encoded. timeout_s: for
    the request, and for its whole answer. Raise `UsageError` if url or headers are malformed.
    """

    def __init__(self, url: str, headers: str = "", *, timeout_s: float = TIMEOUT_S) -> None:
        self._address = _address(url)
        given = _headers(headers)
        self._headers = {
            "Content-Type": "application/x-protobuf",
            "User-Agent": f"taskq/{VERSION}",
            **given,
        }
        self._secrets = sorted(filter(None, given.values()), key=len, reverse=True)
        self._timeout_s = timeout_s
        self._dialer = Dialer()

    def __str__(self) -> str:
        return str(self._address)

    def send(self, traces: Sequence[Trace]) -> str:
        """Send traces in one request; return the complaint of a receiver that accepts them.

        A request that is too large is sent in halves; a single trace that is too large is left out.
        Raise `Unavailable` if sending again later may succeed, `UsageError` if it never will. A
        repetition sends the same ids. A page for people is no answer of a receiver, whatever its
        status: neither a success nor a reason to leave anything out.
        """
        body = _request(traces).SerializeToString()
        try:
            status, is_page, answer = self._post(body)
        except TimeoutError:
            raise Unavailable(f"{self} has not answered for {self._timeout_s:g} s") from None
        except (OSError, HTTPException) as error:
            words = self._shown(wrong_scheme(self._address, error) or str(error) or repr(error))
            raise Unavailable(f"{self} cannot be reached: {words}") from None
        text = self._shown(answer.decode("utf-8", "backslashreplace"))
        if status == _TOO_LARGE and len(traces) > 1:
            half = len(traces) // 2
            return "; ".join(filter(None, map(self.send, (traces[:half], traces[half:]))))
        if is_page:
            raise Unavailable(
                f"{status} from something before {self}, not from a receiver: {advice_on(status)} "
                f"(it says {self._shown(first_line(answer))!r})"
            )
        if status == _TOO_LARGE:
            return f"a trace of {len(traces[0].spans):,} spans is too large for it, and left out"
        if status in _LATER:
            raise Unavailable(f"{self} answered {status}: {text!r}")
        if status != _OK:
            raise UsageError(
                f"{self} answered {status}: {text!r}; is it a receiver of OTLP over HTTP, and does "
                "OTEL_EXPORTER_OTLP_HEADERS have what it requires?"
            )
        return self._shown(_complaint(answer))

    def _shown(self, text: str) -> str:
        """Return the beginning of a receiver's words, without the secrets that it may repeat."""
        for secret in self._secrets:
            text = text.replace(secret, "...")
        return text[:_SHOWN_CHARS]

    def _post(self, body: bytes) -> tuple[int, bool, bytes]:
        """Return the status of an answer, whether it is a page for people, and its body."""
        connection = self._dialer.dial(self._address)
        # Against an answer that never ends: a socket's timeout is for each part of it.
        end = threading.Timer(self._timeout_s, _shut, [connection.sock])
        try:
            connection.sock.settimeout(self._timeout_s)
            headers = {**self._headers, **connection.headers}
            connection.http.request("POST", connection.before_path, body, headers)
            end_at = time.monotonic() + self._timeout_s
            end.start()
            try:
                answer = connection.http.getresponse()
                kind = answer.getheader("Content-Type") or ""
                is_page = kind.lower().startswith(_PAGE)
                return answer.status, is_page, answer.read(_MAX_ANSWER)
            except (OSError, HTTPException):
                if time.monotonic() < end_at:
                    raise
                raise TimeoutError from None
        finally:
            end.cancel()
            connection.close()


def _shut(sock: socket.socket) -> None:
    """End a connection, so that its reader sees the end; bypass TLS, which the reader may hold."""
    with suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _address(url: str) -> GatewayAddress:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    plain = url.isascii() and url.isprintable() and " " not in url
    extra = parts.query or parts.fragment or parts.username is not None
    if not plain or extra or parts.scheme not in _PORTS or not parts.hostname:
        raise UsageError(f"{url!r:.100} is not the address of a receiver, such as http://HOST:4318")
    path = parts.path if parts.path.strip("/") else _PATH
    return GatewayAddress(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], path)


def _headers(text: str) -> dict[str, str]:
    found = {}
    for header in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (unquote(part.strip()) for part in header.partition("="))
        plain = (name + value).isascii() and (name + value).isprintable()
        if not equals or not name.replace("-", "").replace("_", "").isalnum() or not plain:
            raise UsageError("OTEL_EXPORTER_OTLP_HEADERS is not of the form NAME=VALUE,...")
        found[name] = value
    return found


def _complaint(answer: bytes) -> str:
    response = ExportTraceServiceResponse()
    try:
        response.ParseFromString(answer)
    except DecodeError:
        return ""  # it took them; some answer with nothing, or with JSON
    refused = response.partial_success.rejected_spans
    if not refused and not response.partial_success.error_message:
        return ""
    return f"{refused:,} spans refused: {response.partial_success.error_message!r}"


def _request(traces: Iterable[Trace]) -> ExportTraceServiceRequest:
    resource = Resource(attributes=_values({"service.name": "taskq", "service.version": VERSION}))
    scope = ScopeSpans(
        scope=InstrumentationScope(name="taskq", version=VERSION),
        spans=[
            Span(
                trace_id=trace.trace_id,
                span_id=span.span_id,
                parent_span_id=span.parent_id,
                name=span.name,
                kind=Span.SPAN_KIND_INTERNAL,
                start_time_unix_nano=span.begin_ns,
                end_time_unix_nano=span.end_ns,
                attributes=_values(span.attributes),
                status=Status(
                    code=Status.STATUS_CODE_OK if span.error is None else Status.STATUS_CODE_ERROR,
                    message=span.error or "",
                ),
            )
            for trace in traces
            for span in trace.spans
        ],
    )
    return ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(resource=resource, scope_spans=[scope])]
    )


def _values(attributes: Attributes) -> list[KeyValue]:
    return [KeyValue(key=name, value=_value(value)) for name, value in attributes.items()]


def _value(value: str | float) -> AnyValue:
    if isinstance(value, str):
        return AnyValue(string_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    return AnyValue(double_value=value)
