"""HTTP itself: where a request begins and ends is never in doubt, however it arrives."""

from __future__ import annotations

import pytest

from tests.fixtures.gateways import GatewayProcess, Realm
from tests.integration.gateway.peers import Agent, Peer, request_bytes

pytestmark = pytest.mark.thorough

HIDDEN = request_bytes("GET", "/healthz")
CHUNKS = b"0\r\n\r\n" + HIDDEN
#: The length of a request's body, given in two ways: a proxy in front may have believed another.
AMBIGUOUS = {
    "both, length first": (("content-length: 5", "transfer-encoding: chunked"), CHUNKS),
    "both, chunked first": (("transfer-encoding: chunked", "content-length: 5"), CHUNKS),
    "both, shouted": (("CONTENT-LENGTH: 5", "Transfer-Encoding: CHUNKED"), CHUNKS),
    "two lengths": (("content-length: 2", "content-length: 900"), b"{}" + HIDDEN),
    "twice the same length": (("content-length: 2", "content-length: 2"), b"{}" + HIDDEN),
    "list of lengths": (("content-length: 2, 2",), b"{}" + HIDDEN),
    "negative length": (("content-length: -2",), b"{}" + HIDDEN),
    "length with a sign": (("content-length: +2",), b"{}" + HIDDEN),
    "length in hex": (("content-length: 0x2",), b"{}" + HIDDEN),
    "length of many digits": (("content-length: " + "9" * 30,), b"{}" + HIDDEN),
    "two codings": (("transfer-encoding: identity, chunked",), CHUNKS),
    "two codings in two lines": (
        ("transfer-encoding: identity", "transfer-encoding: chunked"),
        CHUNKS,
    ),
    "compressed chunks": (("transfer-encoding: gzip, chunked",), CHUNKS),
    "nothing before chunked": (("transfer-encoding: ,chunked",), CHUNKS),
    "chunked twice": (("transfer-encoding: chunked", "transfer-encoding: chunked"), CHUNKS),
    "chunked with a parameter": (("transfer-encoding: chunked;q=1",), CHUNKS),
    "identity with a length": (
        ("transfer-encoding: identity", "content-length: 2"),
        b"{}" + HIDDEN,
    ),
    "length with an underscore": (("content-length: 2_0",), b"{}" + HIDDEN),
    "length in other digits": (("content-length: \xd9\xa2",), b"{}" + HIDDEN),
    "second host": (("host: other.test", "content-length: 2"), b"{}" + HIDDEN),
    "the same host twice": (("host: gateway.test", "content-length: 2"), b"{}" + HIDDEN),
    "second credential": (
        ("authorization: Bearer tqs_other", "content-length: 2"),
        b"{}" + HIDDEN,
    ),
    "bare CR in a header": (("x: \rxtransfer-encoding: chunked",), CHUNKS),
    "bare LF behind a header": (("x: y\ntransfer-encoding: chunked",), CHUNKS),
    "blank before the colon": (("transfer-encoding : chunked",), CHUNKS),
    "tab before the colon": (("content-length\t: 2",), b"{}" + HIDDEN),
    "blank before the first header": ((" x: y", "content-length: 2"), b"{}" + HIDDEN),
    "folded header": (("transfer-encoding:\r\n chunked",), CHUNKS),
    "unknown coding": (("transfer-encoding: xchunked",), CHUNKS),
    "chunked not last": (("transfer-encoding: chunked, identity",), CHUNKS),
    "chunked with a NUL": (("transfer-encoding: chunked\x00",), CHUNKS),
    "chunk of no size": (("transfer-encoding: chunked",), b"\r\n{}\r\n" + CHUNKS),
    "chunk of negative size": (("transfer-encoding: chunked",), b"-1\r\n{}\r\n" + CHUNKS),
    "chunk of huge size": (("transfer-encoding: chunked",), b"f" * 17 + b"\r\n{}\r\n" + CHUNKS),
    "chunk with a plus": (("transfer-encoding: chunked",), b"+2\r\n{}\r\n" + CHUNKS),
    "chunk with an underscore": (("transfer-encoding: chunked",), b"0_2\r\n{}\r\n" + CHUNKS),
    "chunk in hex with 0x": (("transfer-encoding: chunked",), b"0x2\r\n{}\r\n" + CHUNKS),
    "chunk in other digits": (("transfer-encoding: chunked",), b"\xd9\xa2\r\n{}\r\n" + CHUNKS),
    "chunk with blanks": (("transfer-encoding: chunked",), b"2 \r\n{}\r\n" + CHUNKS),
    "chunk behind a bare LF": (("transfer-encoding: chunked",), b"2\n{}\r\n" + CHUNKS),
    "chunk with a bare CR": (("transfer-encoding: chunked",), b"2\r{}\r\n" + CHUNKS),
    "chunk before a bare LF": (("transfer-encoding: chunked",), b"2\r\n{}\n" + CHUNKS),
    "chunk extension without a name": (("transfer-encoding: chunked",), b"2;\r\n{}\r\n" + CHUNKS),
    "chunk extension over lines": (("transfer-encoding: chunked",), b"2;x\n\r\n{}\r\n" + CHUNKS),
    "coding behind the body": (
        ("transfer-encoding: chunked",),
        b"0\r\ntransfer-encoding: chunked\r\n\r\n" + HIDDEN,
    ),
    "chunk longer than it says": (("transfer-encoding: chunked",), b"1\r\n{}\r\n" + CHUNKS),
}


@pytest.mark.parametrize(("headers", "body"), AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
@pytest.mark.parametrize("path", ["/v1/exchange", "/v1/beat"])
def test_hidden_request_is_never_answered(
    agent: Agent, path: str, headers: tuple[str, ...], body: bytes
) -> None:
    """One 400, and the connection ends: what follows is nobody's request."""
    agent.peer.send(request_bytes("POST", path, token=agent.token, body=body, headers=headers))
    reply = agent.peer.reply()
    assert (reply.status, reply.headers.get("connection")) == (400, "close")
    assert agent.peer.is_closed()


#: Requests of which two parsers may take different targets or bodies; {} is another request.
TWO_FACED = {
    "no host": "GET /healthz HTTP/1.1\r\n\r\n{}",
    "host that is none": "GET /healthz HTTP/1.1\r\nhost: a, b\r\n\r\n{}",
    "host with a path": "GET /healthz HTTP/1.1\r\nhost: a/v1\r\n\r\n{}",
    "host with a user": "GET /healthz HTTP/1.1\r\nhost: a@b\r\n\r\n{}",
    "two hosts in HTTP/1.0": "GET /healthz HTTP/1.0\r\nhost: a\r\nhost: b\r\n\r\n{}",
    "another host in the target": "GET http://b/healthz HTTP/1.1\r\nhost: a\r\n\r\n{}",
    "another port in the target": "GET http://a:81/healthz HTTP/1.1\r\nhost: a\r\n\r\n{}",
    "a user in the target": "GET http://b@a/healthz HTTP/1.1\r\nhost: a\r\n\r\n{}",
    "another scheme": "GET ftp://a/healthz HTTP/1.1\r\nhost: a\r\n\r\n{}",
    "a fragment": "GET /healthz#/v1 HTTP/1.1\r\nhost: a\r\n\r\n{}",
    "the server as a whole": "OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n{}",
    "no version": "GET /healthz\r\n{}",
    "version 0.9": "GET /healthz HTTP/0.9\r\nhost: a\r\n\r\n{}",
    "version 2.0": "GET /healthz HTTP/2.0\r\nhost: a\r\n\r\n{}",
    "chunks in HTTP/1.0": (
        "POST /v1/exchange HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{}"
    ),
}


@pytest.mark.parametrize("text", TWO_FACED.values(), ids=TWO_FACED.keys())
def test_request_of_two_faces_is_refused(shared_gateway: GatewayProcess, text: str) -> None:
    """What a proxy in front may have taken for another request is none."""
    with shared_gateway.peer() as peer:
        peer.send(text.encode().replace(b"{}", HIDDEN))
        reply = peer.reply()
        assert (reply.status, reply.headers["connection"]) == (400, "close")
        assert reply.code == "malformed"
        assert peer.is_closed()


@pytest.mark.parametrize(
    "text",
    [
        "GET http://a.test:80/healthz HTTP/1.1\r\nHost: A.test:80\r\n\r\n",
        "GET https://a.test/healthz HTTP/1.1\r\nhost: a.test\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nhost: [::1]:8443\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nhost:\r\n\r\n",
        "GET /healthz HTTP/1.0\r\n\r\n",
    ],
)
def test_request_with_one_face_is_answered(shared_gateway: GatewayProcess, text: str) -> None:
    """Other forms than usual, of which there is one reading."""
    with shared_gateway.peer() as peer:
        peer.send(text.encode())
        assert peer.reply().status == 200


@pytest.mark.parametrize("path", ["/v1/exchange", "/v1/beat"])
def test_body_is_as_long_as_it_says(agent: Agent, path: str) -> None:
    """A request in a body is a body: refused as one, and the next request is the next request."""
    agent.peer.send(request_bytes("POST", path, token=agent.token, body=HIDDEN))
    agent.peer.send(request_bytes("HEAD", "/readyz"))
    assert agent.peer.reply().code == "malformed"
    reply = agent.peer.reply(head=True)
    assert (reply.status, reply.headers["content-length"]) == (200, "15")


@pytest.mark.parametrize("path", ["/v1/exchange", "/v1/beat"])
def test_chunked_body_is_taken_in(agent: Agent, path: str) -> None:
    """Some clients know no length beforehand."""
    chunks = b"1\r\n{\r\n1;x=y\r\n}\r\n0\r\ntrailer: 1\r\n\r\n"
    head = ("transfer-encoding: chunked",)
    for _ in range(2):
        reply = agent.peer.ask("POST", path, token=agent.token, body=chunks, headers=head)
        assert reply.status == 200


def test_exchange_cut_anywhere_is_the_same_exchange(realm: Realm, agent: Agent) -> None:
    """TCP knows no requests: the bytes of one may arrive in any two parts."""
    realm.seed(2)
    agent.claim(2)
    request = agent.wanting(2)
    agent.peer.send(request)
    whole = agent.peer.reply()
    assert len(whole.json["tasks"]) == 2
    for place in range(1, len(request)):
        agent.peer.send(request[:place])
        agent.peer.send(request[place:])
        reply = agent.peer.reply()
        assert (reply.status, reply.body) == (200, whole.body), place


def test_exchange_in_single_bytes_is_the_same_exchange(realm: Realm, agent: Agent) -> None:
    """In any number of parts."""
    realm.seed(1)
    agent.claim()
    request = agent.wanting()
    for place in range(len(request)):
        agent.peer.send(request[place : place + 1])
    assert len(agent.peer.reply().json["tasks"]) == 1


def test_pipelined_requests_are_answered_in_order(realm: Realm, agent: Agent) -> None:
    """Exchanges by the shortcut and others by the application, mixed."""
    realm.seed(30)
    leases = [agent.lease() for _ in range(20)]
    agent.peer.send(b"".join(agent.wanting(lease=lease) + HIDDEN for lease in leases))
    for lease in leases:
        assert agent.peer.reply().json["tasks"][0]["lease"] == lease
        assert agent.peer.reply().json == {"status": "ok"}


def test_request_pipelined_behind_a_long_poll_waits(realm: Realm, agent: Agent) -> None:
    """It does not overtake it."""
    realm.seed()
    busy = realm.agent()
    (task,) = busy.claim()
    agent.peer.send(agent.wanting(lease=agent.lease(), wait_s=0.5) + HIDDEN)
    first, second = agent.peer.reply(), agent.peer.reply()
    assert first.json["unfinished"] == 1
    assert second.json == {"status": "ok"}
    assert busy.report(task) == ["accepted"]


def test_request_is_answered_before_its_connection_ends(realm: Realm, agent: Agent) -> None:
    """Also if what follows in the same segment is no HTTP: its answer holds tasks."""
    realm.seed()
    agent.peer.send(agent.wanting(lease=agent.lease()) + b"\x00 nonsense\r\n\r\n")
    reply = agent.peer.reply()
    assert (reply.status, len(reply.json.get("tasks", ()))) == (200, 1)


@pytest.mark.parametrize("path", ["/v1/exchange", "/v1/beat"])
@pytest.mark.parametrize(
    ("version", "headers"),
    [("1.1", ("connection: close",)), ("1.1", ("Connection: Close",)), ("1.0", ())],
)
def test_connection_ends_after_the_answer_if_asked_for(
    agent: Agent, path: str, version: str, headers: tuple[str, ...]
) -> None:
    """And the answer says so; what is pipelined behind is not answered."""
    request = request_bytes(
        "POST", path, token=agent.token, body={}, version=version, headers=headers
    )
    agent.peer.send(request + HIDDEN)
    reply = agent.peer.reply()
    assert (reply.status, reply.headers["connection"]) == (200, "close")
    assert agent.peer.is_closed()


@pytest.mark.parametrize("path", ["/v1/exchange", "/v1/beat"])
def test_body_is_asked_for_if_the_client_waits_for_that(agent: Agent, path: str) -> None:
    """Expect: 100-continue, as curl says with larger bodies."""
    request = request_bytes(
        "POST", path, token=agent.token, body={}, headers=("expect: 100-continue",)
    )
    agent.peer.send(request.removesuffix(b"{}"))
    line = agent.peer.socket.recv(100)
    assert line == b"HTTP/1.1 100 Continue\r\n\r\n"
    agent.peer.send(b"{}")
    assert agent.peer.reply().status == 200


@pytest.mark.parametrize("path", ["/v1/exchange", "/v1/beat"])
@pytest.mark.parametrize("change", [str.upper, str.lower, str.title])
def test_case_of_header_names_does_not_matter(agent: Agent, path: str, change: object) -> None:
    """Neither does that of the scheme."""
    assert callable(change)
    request = request_bytes("POST", path, token=agent.token, body={}).decode()
    for name in ("host", "authorization", "content-length"):
        request = request.replace(f"{name}:", f"{change(name)}:")
    agent.peer.send(request.replace("Bearer", str(change("Bearer"))).encode())
    assert agent.peer.reply().status == 200


@pytest.mark.parametrize("path", ["/v1/exchange", "/v1/beat"])
def test_offer_to_upgrade_is_refused(agent: Agent, path: str) -> None:
    """A client that offers another protocol, as `curl --http2` does, has to leave that out."""
    headers = ("connection: upgrade, http2-settings", "upgrade: h2c", "http2-settings: AAMAAABk")
    reply = agent.peer.ask("POST", path, token=agent.token, body={}, headers=headers)
    assert (reply.status, "Upgrade" in reply.json["error"]["message"]) == (400, True)


NONSENSE = {
    "no HTTP": b"hello\r\n\r\n",
    "TLS": bytes.fromhex("1603010200010001fc0303") + bytes(50),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "unknown method": b"STEAL / HTTP/1.1\r\n\r\n",
    "CONNECT": b"CONNECT example.org:443 HTTP/1.1\r\n\r\n",
    "version from the future": b"GET / HTTP/9.9\r\n\r\n",
    "control character in the path": b"GET /\x01 HTTP/1.1\r\n\r\n",
    "byte beyond ASCII in the path": b"GET /\xff HTTP/1.1\r\n\r\n",
    "control character in a header": b"GET /healthz HTTP/1.1\r\nx: \x00\r\n\r\n",
    "line feeds only": b"GET /healthz HTTP/1.1\nhost: x\n\n",
    "header without colon": b"GET /healthz HTTP/1.1\r\nhost\r\n\r\n",
    "zeros": bytes(1_000),
}


@pytest.mark.parametrize("data", NONSENSE.values(), ids=NONSENSE.keys())
def test_bytes_that_are_not_http_get_one_refusal(
    shared_gateway: GatewayProcess, data: bytes
) -> None:
    """In the form that all errors have, and the connection ends."""
    with shared_gateway.peer() as peer:
        peer.send(data)
        reply = peer.reply()
        assert (reply.status, reply.headers["connection"]) == (400, "close")
        assert peer.is_closed()
    assert reply.code == "malformed"


@pytest.mark.parametrize("target", ["/", "/v1/exchange"])
def test_endless_headers_are_cut_short(shared_gateway: GatewayProcess, target: str) -> None:
    """They cost no more than some memory of the stranger's own connection."""
    before = shared_gateway.memory_mb()
    with shared_gateway.peer() as peer:
        peer.socket.settimeout(5.0)
        peer.send(f"POST {target} HTTP/1.1\r\n".encode())
        line = b"x: " + b"a" * 65_536 + b"\r\n"
        with pytest.raises(OSError, match=r"reset|pipe"):  # noqa: PT012  # whichever it meets
            for _ in range(1_000):
                peer.send(line)
            peer.reply()
    assert shared_gateway.memory_mb() < before + 32


def test_half_sent_request_holds_up_its_own_connection_only(realm: Realm, agent: Agent) -> None:
    """A half-sent request holds up its own connection only."""
    with Peer(realm.gateway.port) as slow:
        slow.send(agent.request()[:-1])
        assert agent.exchange().status == 200
        slow.send(agent.request()[-1:])
        assert slow.reply().status == 200
