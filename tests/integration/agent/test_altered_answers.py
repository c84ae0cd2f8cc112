"""Agents and submitters behind something that passes answers on, but not as they were."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator

import pytest

from taskq.db.gateway_queries import GatewayQueries
from taskq.model.errors import Unavailable
from taskq_agent.errors import TransportFailed
from taskq_agent.http.connections import Dialer
from taskq_agent.http.gateways import GatewayList
from taskq_agent.http.transport import HttpTransport
from taskq_agent.lease_ids import new_lease
from taskq_agent.protocol import Heartbeat, Hello
from tests.helpers.memory_gateway import TOKEN, gateway_of
from tests.helpers.threaded_agent import queue_of
from tests.helpers.way import Page, Way, way_to

#: More than anybody reads of one line.
LONG = "x" * 1_000_000
CHANGED = "something on the way, 1.1 squid, has changed the gateway's answer"


def sent(page: Page, *headers: str, body: bytes | None = None, version: str = "1.1") -> bytes:
    """Return an answer with these headers in place of its length, which is right otherwise."""
    content = page.body if body is None else body
    lines = [f"HTTP/{version} {page.status} Answer", "Via: 1.1 squid"]
    lines += [f"{name}: {value}" for name, value in page.headers]
    lines += headers or [f"Content-Length: {len(content)}"]
    return "\r\n".join([*lines, "", ""]).encode() + content


def in_chunks(page: Page, end: bytes) -> bytes:
    body = b"%x\r\n%s\r\n%s" % (len(page.body), page.body, end)
    return sent(page, "Transfer-Encoding: chunked", body=body)


def packed(page: Page, kind: str, pack: Callable[[bytes], bytes]) -> bytes:
    body = pack(page.body)
    return sent(page, f"Content-Encoding: {kind}", f"Content-Length: {len(body)}", body=body)


#: What makes an answer unusable, and how the error says that.
SPOILT: dict[str, tuple[Callable[[Page], bytes], str]] = {
    "gzip": (lambda page: packed(page, "gzip", gzip.compress), f"{CHANGED} .gzip packs it"),
    "br": (lambda page: packed(page, "br", zlib.compress), f"{CHANGED} .br packs it"),
    "other letters": (
        lambda page: sent(page, body=page.body.decode().encode("utf-16")),
        f"{CHANGED} .'utf-8' codec",
    ),
    "an advertisement": (
        lambda page: sent(page, body=b"<script></script>" + page.body),
        f"{CHANGED} .Expecting value",
    ),
    "too short a length": (
        lambda page: sent(page, f"Content-Length: {len(page.body) - 5}"),
        CHANGED,
    ),
    "too great a length": (
        lambda page: sent(page, f"Content-Length: {len(page.body) + 5}"),
        "ends 5 bytes too early",
    ),
    "a cut end": (lambda page: sent(page)[:-5], "ends 5 bytes too early"),
    "a cut end of unknown length": (lambda page: sent(page, "X-A: 1")[:-5], CHANGED),
    "a cut chunk": (lambda page: in_chunks(page, b"")[:-9], "ends within a chunk"),
    "no last chunk": (lambda page: in_chunks(page, b""), "ends within a chunk"),
    "a long header": (lambda page: sent(page, f"X-Trace: {LONG}"), "more than 65536 bytes"),
    "many headers": (
        lambda page: sent(page, *(f"X-{number}: 1" for number in range(1_000))),
        "more than 100 headers",
    ),
    "hints without end": (
        lambda page: b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1_000 + sent(page),
        "more than 10 answers",
    ),
    "hints of many lines": (
        lambda page: b"HTTP/1.1 103 Early Hints\r\n" + b"Link: </a>\r\n" * 1_000 + sent(page),
        "more than 100 lines",
    ),
}
#: What leaves an answer as good as it was.
HARMLESS: dict[str, Callable[[Page], bytes]] = {
    "an old version": lambda page: sent(page, "X-A: 1", version="1.0"),
    "hints before it": lambda page: (
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n" * 2 + sent(page)
    ),
    "other answers before it": lambda page: (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\nA: 1\r\n\r\n" * 2 + sent(page)
    ),
    "trailers": lambda page: in_chunks(page, b"0\r\nX-Sum: 1\r\nX-End: 2\r\n\r\n"),
    "its length twice": lambda page: sent(page, *[f"Content-Length: {len(page.body)}"] * 2),
    "capitals": lambda page: sent(
        page._replace(headers=tuple((name.upper(), value) for name, value in page.headers))
    ),
    "an encoding that is none": lambda page: packed(page, "identity", bytes),
}


@pytest.fixture
def way() -> Iterator[Way]:
    with gateway_of(queue_of(1)) as gateway, way_to(gateway.port) as way:
        yield way


def transport_to(way: Way) -> HttpTransport:
    return HttpTransport(GatewayList([way.url]), TOKEN, Dialer())


@pytest.mark.parametrize("how", SPOILT)
def test_spoilt_answer_is_an_error_that_says_how(way: Way, how: str) -> None:
    """No part of it is believed, and the agent goes on once answers pass as they are."""
    alter, said = SPOILT[how]
    way.alter = lambda _, page: alter(page)
    with transport_to(way) as transport:
        hello = Hello(new_lease(), "/test", "agent", "host", 1, "site", 1, "0")
        with pytest.raises(TransportFailed, match=said):
            transport.open(hello)
        way.alter = None
        session = transport.open(hello).session
        way.alter = lambda _, page: alter(page)
        with pytest.raises(TransportFailed, match=said):
            transport.heartbeat(Heartbeat(session))
        way.alter = None
        transport.heartbeat(Heartbeat(session))


@pytest.mark.parametrize("how", HARMLESS)
def test_answer_in_another_form_is_read_as_ever(way: Way, how: str) -> None:
    """Content delivery networks send hints first, on each request."""
    way.alter = lambda _, page: HARMLESS[how](page)
    with transport_to(way) as transport:
        hello = Hello(new_lease(), "/test", "agent", "host", 1, "site", 1, "0")
        transport.heartbeat(Heartbeat(transport.open(hello).session))


@pytest.mark.parametrize("how", ["an advertisement", "too short a length", "a cut chunk"])
def test_submitter_believes_no_spoilt_answer(way: Way, how: str) -> None:
    """Not even one whose rows end where a line does."""
    alter, said = SPOILT[how]
    body = gzip.compress(b'[["running", "int4"]]\n[0]\n')
    page = Page(200, body, (("taskq-answer", "1"), ("Content-Encoding", "gzip")))
    way.judge = lambda *_: page
    queries = GatewayQueries(way.url, TOKEN, patience_s=0)
    assert queries.rows("brake") == [{"running": 0}]
    way.alter = lambda *_: alter(page)
    with pytest.raises(Unavailable, match=CHANGED if how.startswith(("an", "too")) else said):
        queries.rows("brake")
    plain = page._replace(body=gzip.decompress(body)[:-4], headers=page.headers[:1])
    way.alter = lambda *_: sent(plain, "X-A: 1")
    with pytest.raises(Unavailable, match=f"{CHANGED} .the answer is not compressed"):
        queries.rows("brake")
