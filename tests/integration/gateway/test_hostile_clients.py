"""Clients that mean harm: what they cost is bounded, and they learn why."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from taskq.gateway.http.connection import MOST_AHEAD
from taskq.gateway.http.framing import MAX_HEAD_BYTES
from taskq.gateway.http.lingering import LINGER_BYTES
from tests.fixtures.gateways import GatewayProcess, Realm, StartGateway, opened
from tests.helpers.waiting import wait_until
from tests.integration.gateway.peers import Agent, Peer, Reply, request_bytes
from tests.integration.gateway.site import Site

pytestmark = pytest.mark.thorough

BODY_BYTES = 100_000_000
#: What is read after a refusal, and what two kernels keep for somebody who may read it.
MOST_TAKEN = LINGER_BYTES + 40_000_000
ENDS_S = 100.0
EXCHANGE, BEAT, BLOB = "/v1/exchange", "/v1/beat", f"/v1/blobs/{'0' * 64}"
HEALTH = request_bytes("GET", "/healthz")


@pytest.fixture
def silent(realm: Realm) -> Iterator[GatewayProcess]:
    """Give the gateway, which must write nothing to its log."""
    before = realm.gateway.errors()
    yield realm.gateway
    assert realm.gateway.errors() == before


@pytest.fixture
def encrypted(start_gateway: StartGateway, dsn: str, site: Site) -> Iterator[Realm]:
    """Give a campaign at a gateway with TLS."""
    with opened(dsn) as queue:
        yield Realm(queue, start_gateway(*site.certificate))


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Give a site with a certificate."""
    return Site(tmp_path_factory.mktemp("site"))


def head_of(path: str, token: str) -> bytes:
    """Return the head of a request with a body that never seems to end."""
    method = "PUT" if path == BLOB else "POST"
    headers = (f"content-length: {BODY_BYTES}",)
    return request_bytes(method, path, token=token, body=b"", headers=headers)


def poured(peer: Peer, most: int = BODY_BYTES) -> int:
    """Send a body for as long as the other side lets us; return how much that was."""
    chunk, sent = bytes(65_536), 0
    peer.socket.settimeout(ENDS_S)
    with suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
        while sent < most:
            sent += peer.socket.send(chunk)
    return sent


def assert_refused(peer: Peer, status: int) -> None:
    """See the answer, which says that it is the last one, and the end."""
    reply = peer.reply()
    assert (reply.status, reply.headers.get("connection")) == (status, "close")
    assert peer.is_closed()


@pytest.mark.parametrize("path", [EXCHANGE, BEAT, BLOB])
@pytest.mark.parametrize("token", ["", "tqs_nobody's"])
def test_body_of_a_stranger_is_not_read_to_its_end(
    realm: Realm, silent: GatewayProcess, path: str, token: str
) -> None:
    """401, and the connection ends though most of the body has not been sent."""
    agent = realm.agent()
    with silent.peer() as peer:
        peer.send(head_of(path, token))
        assert poured(peer) < MOST_TAKEN
        assert agent.exchange().status == 200
        assert_refused(peer, 401)


@pytest.mark.parametrize("path", [EXCHANGE, BEAT, BLOB])
def test_body_that_is_too_large_is_not_read_to_its_end(
    realm: Realm, silent: GatewayProcess, path: str
) -> None:
    """413 from what its length says, and the same from what comes if no length was reported."""
    agent = realm.agent()
    agent.exchange()
    with silent.peer() as peer:
        peer.send(head_of(path, agent.token))
        assert poured(peer) < MOST_TAKEN
        assert_refused(peer, 413)
    if path == BLOB:
        return
    chunked = ("transfer-encoding: chunked",)
    agent.peer.send(request_bytes("POST", path, token=agent.token, body=b"", headers=chunked))
    agent.peer.send(b"%x\r\n" % BODY_BYTES)
    assert poured(agent.peer) < MOST_TAKEN
    assert_refused(agent.peer, 413)


@pytest.mark.parametrize("path", [EXCHANGE, BEAT, BLOB])
def test_refused_body_is_not_read_to_its_end_over_tls(
    encrypted: Realm, site: Site, path: str
) -> None:
    """Nor decrypted; and the answer arrives there as well."""
    with encrypted.gateway.peer(tls=site.trust) as peer:
        peer.send(head_of(path, ""))
        assert poured(peer) < MOST_TAKEN
        assert peer.reply().status == 401
    assert encrypted.gateway.errors() == ""


def test_client_that_reads_before_it_sends_on_gets_the_refusal(agent: Agent) -> None:
    """And then the end of the connection; nothing is lost, and nobody waits for the body."""
    began = time.monotonic()
    agent.peer.send(head_of(BEAT, ""))
    assert_refused(agent.peer, 401)
    assert time.monotonic() - began < ENDS_S


def test_refused_client_that_neither_sends_nor_leaves_is_cut(
    realm: Realm, silent: GatewayProcess
) -> None:
    """The gateway waits for a few seconds only."""
    peers = [silent.peer() for _ in range(8)]
    for peer in peers:
        peer.send(head_of(BEAT, ""))
    wait_until(lambda: silent.metric("connections", realm.manager) == 1, timeout_s=ENDS_S)


PATHS = (EXCHANGE, BEAT, "/healthz")


@pytest.mark.parametrize("first", PATHS)
@pytest.mark.parametrize("second", PATHS)
@pytest.mark.parametrize("is_known", [True, False], ids=["known", "stranger"])
def test_client_that_hangs_up_with_requests_ahead_leaves_no_trace(
    realm: Realm, silent: GatewayProcess, first: str, second: str, *, is_known: bool
) -> None:
    """Wherever it hangs up, and whichever of them says that it is the last one."""
    agent = realm.agent()
    token = agent.token if is_known else "tqs_nobody's"

    def request(path: str, *headers: str) -> bytes:
        if path == "/healthz":
            return request_bytes("GET", path, headers=headers)
        return request_bytes("POST", path, token=token, body={}, headers=headers)

    for last in (0, 1, 2, None):
        for is_patient in (True, False):
            closing = [("connection: close",) if place == last else () for place in range(3)]
            paths = (first, second, first)
            with silent.peer() as peer:
                peer.send(
                    b"".join(
                        request(*row, *how)
                        for row, how in zip(zip(paths, strict=True), closing, strict=True)
                    )
                )
                if is_patient:
                    replies = [peer.reply() for _ in range(3 if last is None else last + 1)]
                    assert {reply.status for reply in replies} <= {200, 401}
                    assert last is None or peer.is_closed()
    wait_until(lambda: silent.metric("connections", realm.manager) == 2)


def test_hung_up_requests_that_wait_for_the_database_leave_no_trace(
    realm: Realm, silent: GatewayProcess
) -> None:
    """Also where the answer is ready only after the client has gone."""
    agent = realm.agent()
    for _ in range(20):
        with silent.peer() as peer:
            beat = request_bytes("POST", BEAT, token=agent.token, body={})
            peer.send(beat + agent.request() + beat + HEALTH)
    wait_until(lambda: silent.metric("connections", realm.manager) == 2)
    assert agent.beat().status == 200


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("size", [1, 1_000, 200_000])
def test_head_above_the_limit_is_refused_however_it_arrives(
    agent: Agent, path: str, size: int
) -> None:
    """At once, in two parts, and behind another request: 431 each time."""
    lines = tuple(f"x-{n}: {'y' * 99}" for n in range((MAX_HEAD_BYTES + size) // 100 + 1))
    method = "GET" if path == "/healthz" else "POST"
    large = request_bytes(method, path, token=agent.token, headers=lines)
    for parts in ((large,), (large[:30_000], large[30_000:]), (HEALTH + large,)):
        with Peer(agent.peer.socket.getpeername()[1]) as peer:
            with suppress(BrokenPipeError, ConnectionResetError):
                for part in parts:
                    peer.send(part)
                    time.sleep(0.01)  # no synchronisation: so that they may arrive apart
            if parts[0].startswith(HEALTH):
                assert peer.reply().status == 200
            assert_refused(peer, 431)


@pytest.mark.parametrize("path", PATHS)
def test_head_within_the_limit_is_taken_in(agent: Agent, path: str) -> None:
    """At once, and behind others that are as large together as no single one may be."""
    lines = tuple(f"x-{n}: {'y' * 90}" for n in range(200))
    method, body = ("GET", b"") if path == "/healthz" else ("POST", b"{}")
    request = request_bytes(method, path, token=agent.token, body=body, headers=lines)
    agent.peer.send(request * 3 + request[:-10])
    agent.peer.send(request[-10:])
    assert [agent.peer.reply().status for _ in range(4)] == [200] * 4


@pytest.mark.parametrize("path", [EXCHANGE, BEAT])
@pytest.mark.parametrize(
    "what", [b"0\r\nx: ", b"1;", b"0\r\nx: 1\r\n"], ids=["line", "ext", "lines"]
)
def test_lines_around_the_chunks_of_a_body_are_bounded(
    agent: Agent, path: str, what: bytes
) -> None:
    """A line behind the body, or next to a chunk, that never ends is not kept in memory."""
    agent.exchange()
    head = ("transfer-encoding: chunked",)
    agent.peer.send(request_bytes("POST", path, token=agent.token, body=b"", headers=head))
    agent.peer.send(what)
    endless = b"y: 1\r\n" * 10_000 if what.endswith(b"\r\n") else b"y" * 60_000
    agent.peer.socket.settimeout(ENDS_S)
    sent = 0
    with suppress(BrokenPipeError, ConnectionResetError):
        while sent < BODY_BYTES:
            agent.peer.send(endless)
            sent += len(endless)
    assert sent < MOST_TAKEN
    assert_refused(agent.peer, 431)


def test_line_behind_the_body_gives_no_right(agent: Agent) -> None:
    """What a proxy has not seen as a header is none."""
    chunks = f"2\r\n{{}}\r\n0\r\nauthorization: Bearer {agent.token}\r\n\r\n".encode()
    head = ("transfer-encoding: chunked",)
    for path in (EXCHANGE, BEAT):
        with Peer(agent.peer.socket.getpeername()[1]) as peer:
            assert peer.ask("POST", path, body=chunks, headers=head).status == 401


@pytest.mark.parametrize("request_", [HEALTH, b""], ids=["health", "exchange"])
def test_pipelined_requests_beyond_the_limit_are_refused_after_the_others(
    agent: Agent, request_: bytes
) -> None:
    """All that were taken in are answered; one answer then refuses the rest."""
    request = request_ or agent.request()
    agent.exchange()
    agent.peer.send(request * (MOST_AHEAD + 100))
    statuses = [agent.peer.reply().status]
    while statuses[-1] == 200 and len(statuses) < MOST_AHEAD + 100:
        statuses.append(agent.peer.reply().status)
    assert statuses[:-1] == [200] * (len(statuses) - 1)
    assert len(statuses) > MOST_AHEAD + 1
    # All are answered where they have arrived in parts: those to come have waited outside.
    if len(statuses) < MOST_AHEAD + 100:
        assert statuses[-1] == 429
        assert agent.peer.is_closed()


def test_requests_that_arrive_together_are_bounded_however_soon_they_are_answered(
    realm: Realm,
) -> None:
    """What one look at a connection costs all others is bounded."""
    with realm.gateway.peer() as peer:
        with suppress(BrokenPipeError, ConnectionResetError):
            peer.send(request_bytes("GET", "/nothing") * 9_000)
        replies = [peer.reply()]
        while replies[-1].status == 404:
            replies.append(peer.reply())
        assert replies[-1].status == 429
        assert len(replies) == MOST_AHEAD + 2
        assert peer.is_closed()


@pytest.mark.parametrize("path", [EXCHANGE, BEAT, BLOB])
@pytest.mark.parametrize("size", [1, 2])
def test_body_in_tiny_chunks_costs_time_in_proportion(
    realm: Realm, agent: Agent, path: str, size: int
) -> None:
    """Also of a stranger, who is asked for the token later than the chunks arrive."""
    chunk = b"%x\r\n%s\r\n" % (size, b"a" * size)
    chunks = chunk * (250_000 // len(chunk)) + b"0\r\n\r\n"
    head = ("transfer-encoding: chunked",)
    method = "PUT" if path == BLOB else "POST"
    for token in ("tqs_none", agent.token):
        before = realm.gateway.cpu_s()
        reply = realm.gateway.ask(method, path, token=token, body=chunks, headers=head)
        assert reply.status in {400, 401, 422}
        assert realm.gateway.cpu_s() - before < 4.0


def test_nonsense_behind_a_request_is_refused_after_the_requests_answer(
    realm: Realm, agent: Agent
) -> None:
    """Neither takes the place of the other."""
    realm.seed()
    agent.peer.send(agent.wanting(lease=agent.lease()) + HEALTH + b"\x00 nonsense\r\n\r\n")
    assert len(agent.peer.reply().json["tasks"]) == 1
    assert agent.peer.reply().json == {"status": "ok"}
    assert_refused(agent.peer, 400)


@pytest.mark.parametrize("path", [EXCHANGE, BEAT])
def test_broken_body_behind_a_request_is_refused_after_the_first_answer(
    agent: Agent, path: str
) -> None:
    """Its own request is refused, the one before it is not."""
    head = ("transfer-encoding: chunked",)
    broken = request_bytes("POST", path, token=agent.token, body=b"2\r\n{}\r\n-1\r\n", headers=head)
    agent.peer.send(agent.request() + HEALTH + broken)
    assert [agent.peer.reply().status for _ in range(2)] == [200, 200]
    assert_refused(agent.peer, 400)


STRANGE = ("%00", "%ff", "%c3", "%0a", "%7f", "%ed%a0%80", "x%00y")


def own_words(reply: Reply) -> bool:
    """Return whether an answer is a refusal without a word of PostgreSQL's, or of Python's."""
    text = reply.json["error"]["message"].lower()
    foreign = ("postgres", "refuses a value", "0x00", "text fields", "codec", "invalid byte")
    return 400 <= reply.status < 500 and not any(word in text for word in foreign)


@pytest.mark.parametrize("strange", STRANGE)
def test_path_that_is_no_text_is_refused_in_our_words(realm: Realm, strange: str) -> None:
    """In paths and queries, anyone who asks."""
    agent = realm.agent()
    for token in (agent.token, realm.manager):
        for path in (f"/v1/blobs/{strange}", f"/v1/blobs/{'0' * 63}{strange}"):
            assert own_words(realm.gateway.ask("GET", path, token=token)), path
            assert own_words(realm.gateway.ask("PUT", path, token=token, body=b"x")), path
        path = f"/v1/manage/counts?rest={strange}"
        assert own_words(realm.gateway.ask("POST", path, token=token)), path
        assert own_words(realm.gateway.ask("GET", f"/{strange}", token=token))


MESSAGES: dict[str, Callable[[str, str], object]] = {
    "/v1/sessions": lambda path, text: {"campaign": path, "key": text},
    "/v1/exchange": lambda _, text: {"want": 1, "lease": text},
    "/v1/beat": lambda _, text: {"drawn": text},
    "/v1/manage/set_status": lambda path, text: {"path": path + text, "status": "paused"},
}


@pytest.mark.parametrize("path", MESSAGES)
@pytest.mark.parametrize("text", ["\x00", "\ud800", "/\x00", "\udfff\x00"])
def test_string_that_cannot_be_stored_is_refused_in_our_words(
    realm: Realm, path: str, text: str
) -> None:
    """In each message, and also where such a string is the name of a member."""
    agent = realm.agent()
    tokens = {"/v1/sessions": realm.site, "/v1/exchange": agent.token, "/v1/beat": agent.token}
    token = tokens.get(path, realm.manager)
    message = MESSAGES[path](realm.path, text)
    assert isinstance(message, dict)
    for body in (message, {**message, text: 1}):
        written = json.dumps(body).encode()
        assert own_words(realm.gateway.ask("POST", path, token=token, body=written))


def test_digest_that_is_none_is_refused_before_anything_is_read(agent: Agent) -> None:
    """A body for which there is no place is not taken in."""
    headers = (f"content-length: {BODY_BYTES}",)
    for digest in ("x", "0" * 63, "0" * 65, "A" * 64):
        with Peer(agent.peer.socket.getpeername()[1]) as peer:
            path = f"/v1/blobs/{digest}"
            peer.send(request_bytes("PUT", path, token=agent.token, body=b"", headers=headers))
            assert_refused(peer, 422)
