"""Requests of an agent over HTTP: connections, answers that are none, refusals, time."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from taskq_agent.errors import AnswerUnreadable, LostOnTheWay, Refused, SessionLost, TransportFailed
from taskq_agent.lease_ids import new_lease
from taskq_agent.protocol import Heartbeat, Hello, Request
from tests.helpers.memory_gateway import TOKEN, HttpGateway, Reply, error
from tests.helpers.threaded_agent import queue_of
from tests.helpers.waiting import BUSY_S, wait_until
from tests.integration.agent.http.support import BLOB, DIGEST, HELLO, agent_of

LEASE, NEXT = new_lease(0), new_lease(1)


def test_one_connection_serves_all_requests(gateway: HttpGateway) -> None:
    """A connection, and with TLS its handshake, is paid for once."""
    with agent_of(gateway) as transport:
        session = transport.open(HELLO).session
        for _ in range(20):
            transport.exchange(Request(session))
            transport.heartbeat(Heartbeat(session))
        transport.close(session)
    assert gateway.connections() == 1


def test_heartbeat_does_not_wait_for_an_exchange(gateway: HttpGateway) -> None:
    """It has a connection of its own while the other is in use, and keeps that too."""
    queue = gateway.queue = queue_of(0)
    with agent_of(gateway) as transport, ThreadPoolExecutor(1) as pool:
        session = transport.open(HELLO).session
        claim = pool.submit(transport.exchange, Request(session, (), 1, LEASE, wait_s=20))
        wait_until(lambda: gateway.waits)
        for _ in range(5):
            transport.heartbeat(Heartbeat(session))
        queue.add({"n": 0})
        assert claim.result(60).tasks
    assert gateway.connections() == 2


def test_connection_that_the_server_has_closed_is_replaced(gateway: HttpGateway) -> None:
    """Between two requests that is its right, and no error."""
    with agent_of(gateway) as transport:
        gateway.substitute = lambda path: (
            Reply(200, b'{"stop": []}', hang_up=True) if path == "/v1/beat" else None
        )
        session = transport.open(HELLO).session
        for _ in range(3):
            transport.heartbeat(Heartbeat(session))
    assert gateway.connections() == 3


def test_connection_that_dies_under_a_request_is_replaced_once(gateway: HttpGateway) -> None:
    """The server may close it in the moment in which the request is sent."""
    replies = [None, Reply(hang_up=True), None]
    gateway.substitute = lambda _: replies.pop(0) if replies else None
    with agent_of(gateway) as transport:
        transport.heartbeat(Heartbeat(transport.open(HELLO).session))
    assert [request.path for request in gateway.seen] == ["/v1/sessions", "/v1/beat", "/v1/beat"]


def test_unrequested_response_is_not_taken_for_an_answer(gateway: HttpGateway) -> None:
    """Proxies send 408 on an idle connection and close it: the next request is not meant."""
    is_idle = threading.Event()

    def time_out() -> bytes:
        assert is_idle.wait(60)
        return b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

    with agent_of(gateway) as transport:
        session = transport.open(HELLO).session
        gateway.substitute = lambda _: Reply(200, b"{}", hang_up=True, afterwards=time_out)
        transport.heartbeat(Heartbeat(session))
        gateway.substitute = lambda _: None
        is_idle.set()
        wait_until(gateway.ended)
        transport.heartbeat(Heartbeat(session))
    assert gateway.connections() == 2


def test_gateway_that_is_gone_is_a_failure(gateway: HttpGateway) -> None:
    with agent_of(gateway) as transport:
        session = transport.open(HELLO).session
        gateway.close()
        with pytest.raises(TransportFailed, match=f"127.0.0.1:{gateway.port}"):
            transport.heartbeat(Heartbeat(session))


def test_gateway_that_does_not_answer_is_a_failure(
    gateway: HttpGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is not asked the same again at once: it may be at work on it."""
    end_of_test = threading.Event()
    monkeypatch.setattr("taskq_agent.http.transport.ANSWER_S", 0.3)
    with agent_of(gateway) as transport:
        session = transport.open(HELLO).session
        gateway.substitute = lambda _: end_of_test.wait(60) and None
        with pytest.raises(TransportFailed, match="timed out"):
            transport.exchange(Request(session))
        end_of_test.set()
    assert len(gateway.seen) == 2


@pytest.mark.parametrize(
    "reply",
    [
        Reply(hang_up=True),
        Reply(200, b"<html>Welcome to the network of the hotel</html>", own=False),
        Reply(200, b'{"session": 1, "heartbeat_s": 1, "lease_s": 9, "token": "a"}', own=False),
        Reply(200, b"[]"),
        Reply(200, b'{"session": "1"}'),
        Reply(200, b'{"session": 1, "heartbeat_s": 0, "lease_s": 1, "token": "a"}'),
        Reply(200, b'{"session": 1, "heartbeat_s": 1, "lease_s": 1}'),
        Reply(200, b'{"session": 1, "heartbeat_s": 1, "lease_s": 1, "token": "a\\r\\nb: c"}'),
        Reply(200, b"{", (("Content-Length", "1000"),), hang_up=True),
        Reply(200, b"", (("Content-Length", "many"),), hang_up=True),
        Reply(302, b"", (("Location", "https://elsewhere"),)),
        Reply(404, b"404 page not found\n"),
        *(
            Reply(status, body, own=own)
            for status in (200, 400, 401, 403, 404, 405, 407, 410, 413, 422, 451, 500, 502)
            for own, body in (
                (False, b"<html>No such route</html>"),
                (False, b'{"error": {"code": "unauthorized", "message": "who are you?"}}'),
                (True, b""),
                (True, b"<html>No such route</html>"),
                (True, b'{"error": {"code": 403, "message": "of an API of something else"}}'),
                (True, b'{"error": "forbidden"}'),
            )
        ),
        Reply(204, own=False),
        Reply(408),
    ],
)
def test_garbage_is_a_failure(gateway: HttpGateway, reply: Reply) -> None:
    """Whatever something between the agent and the queue says, the request can be repeated."""
    gateway.substitute = lambda _: reply
    with agent_of(gateway) as transport:
        with pytest.raises(TransportFailed) as failure:
            transport.open(HELLO)
        assert failure.value.retry_after_s is None
        gateway.substitute = lambda _: None
        assert transport.open(HELLO).session == 1


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, b'{"unfinished": ' + b"9" * 5_000 + b"}"),
        Reply(200, b'{"tasks": ' + b"[" * 100_000),
        Reply(200, b'{"tasks": [1]}'),
        error(500, "unreadable"),
    ],
)
def test_unreadable_answer_is_not_taken_for_a_lost_answer(
    gateway: HttpGateway, reply: Reply
) -> None:
    """The queue made it, so it would come again."""
    with agent_of(gateway) as transport:
        session = transport.open(HELLO).session
        gateway.substitute = lambda _: reply
        with pytest.raises(AnswerUnreadable, match=r"127\.0\.0\.1:\d+: "):
            transport.exchange(Request(session))
        gateway.substitute = lambda _: Reply(200, b"<html>")
        with pytest.raises(TransportFailed) as failure:
            transport.exchange(Request(session))
    assert not isinstance(failure.value, AnswerUnreadable)


def test_endless_answer_is_cut_off(gateway: HttpGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskq_agent.http.transport._MAX_ANSWER_BYTES", 1_000)
    gateway.substitute = lambda _: Reply(200, b" " * 100_000)
    with agent_of(gateway) as transport, pytest.raises(TransportFailed, match="longer than 1000"):
        transport.open(HELLO)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 413, 422])
def test_request_that_can_never_be_served_is_refused(gateway: HttpGateway, status: int) -> None:
    gateway.substitute = lambda _: error(status, "some_code")
    with agent_of(gateway) as transport, pytest.raises(Refused, match="it is some_code"):
        transport.open(HELLO)


NGINX = b"<html><head><title>413 Request Entity Too Large</title></head>\r\n<body>...</body></html>"
PORTAL = b"<style>b {}</style><script>f()</script>\n<!-- x -->\n<h1>\x1b[2JWelcome   to Wi-Fi</h1>"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (
            Reply(413, NGINX, (("Server", "nginx/1.22.1"),), own=False),
            (
                "413 from nginx/1.22.1, not from a gateway: raise its limit on bodies, such as "
                "client_max_body_size of nginx (it says '413 Request Entity Too Large')"
            ),
        ),
        (
            Reply(200, PORTAL, own=False),
            (
                "200 from something else, not from a gateway: another program, a portal that wants "
                "a login, or something takes away Taskq-Answer (it says 'Welcome to Wi-Fi')"
            ),
        ),
        (Reply(404, own=False), "404 from something else, not from a gateway: is the path of the"),
        (Reply(418, own=False), "418 from something else, not from a gateway: it refuses this"),
    ],
)
def test_other_server_in_place_of_a_gateway_is_shown(
    gateway: HttpGateway, reply: Reply, said: str
) -> None:
    """With its name, its first words as plain text, and what to do about it there."""
    gateway.substitute = lambda _: reply
    with agent_of(gateway) as transport, pytest.raises(LostOnTheWay) as failure:
        transport.open(HELLO)
    assert str(failure.value).startswith(f"{gateway.url}: {said}")


@pytest.mark.parametrize("status", [200, 204, 206, 403, 404, 413, 416])
def test_nothing_but_a_gateway_ends_a_transfer(gateway: HttpGateway, status: int) -> None:
    """Neither well nor badly: a portal that says 204 has stored nothing."""
    gateway.blobs[DIGEST] = BLOB
    with agent_of(gateway) as transport:
        session = transport.open(HELLO).session
        gateway.substitute = lambda _: Reply(status, b"" if status == 204 else BLOB, own=False)
        with pytest.raises(LostOnTheWay):
            transport.write_blob(DIGEST, BLOB)
        with pytest.raises(LostOnTheWay):
            list(transport.read_blob(DIGEST, 0))
        with pytest.raises(LostOnTheWay):
            transport.close(session)
        gateway.substitute = lambda _: None
        transport.write_blob(DIGEST, BLOB)


def test_unknown_token_is_refused(gateway: HttpGateway) -> None:
    with agent_of(gateway, token=TOKEN[:-1]) as transport, pytest.raises(Refused, match="401"):
        transport.open(HELLO)


@pytest.mark.parametrize(("status", "code"), [(401, "unauthorized"), (410, "session_lost")])
def test_session_is_lost(gateway: HttpGateway, status: int, code: str) -> None:
    with agent_of(gateway) as transport:
        session = transport.open(HELLO).session
        gateway.substitute = lambda _: error(status, code)
        with pytest.raises(SessionLost):
            transport.exchange(Request(session))
        with pytest.raises(SessionLost):
            transport.heartbeat(Heartbeat(session))


@pytest.mark.parametrize("status", [401, 410])
def test_session_is_not_lost_by_what_a_proxy_says(gateway: HttpGateway, status: int) -> None:
    """As one that wants its own credentials for a while: the request can be repeated."""
    with agent_of(gateway) as transport:
        session = transport.open(HELLO).session
        gateway.substitute = lambda _: Reply(status, b"<html>Who are you?</html>", own=False)
        with pytest.raises(TransportFailed, match=f"{status} from .*'Who are you"):
            transport.exchange(Request(session))
        with pytest.raises(TransportFailed):
            transport.heartbeat(Heartbeat(session))
        gateway.substitute = lambda _: None
        transport.heartbeat(Heartbeat(session))


def test_former_session_has_no_right_any_more(gateway: HttpGateway) -> None:
    """A beat of the one before must not keep the new one alive in its place."""
    with agent_of(gateway) as transport:
        first = transport.open(HELLO).session
        transport.open(
            Hello(
                "00000000-0000-7000-8000-000000000002", "/test", "agent", "host", 1, "site", 1, "0"
            )
        )
        with pytest.raises(SessionLost, match="given up"):
            transport.heartbeat(Heartbeat(first))


def test_texts_of_a_gateway_cannot_upset_a_terminal(gateway: HttpGateway) -> None:
    gateway.substitute = lambda _: Reply(
        403, b'{"error": {"code": "a", "message": "\\u001b[2J no\\nline"}}'
    )
    with agent_of(gateway) as transport, pytest.raises(Refused, match=r"^403 a: no line$"):
        transport.open(HELLO)


def test_answer_comes_as_soon_as_there_is_a_task(gateway: HttpGateway) -> None:
    gateway.queue = queue_of(0)
    with agent_of(gateway) as transport, ThreadPoolExecutor(1) as pool:
        session = transport.open(HELLO).session
        claim = pool.submit(transport.exchange, Request(session, (), 1, LEASE, wait_s=30))
        wait_until(lambda: gateway.waits)
        gateway.queue.add({"n": 0})
        assert [task.task for task in claim.result(60).tasks] == [1]


def test_waiting_exchange_is_broken_off_at_once(gateway: HttpGateway) -> None:
    gateway.queue = queue_of(0)
    with agent_of(gateway) as transport, ThreadPoolExecutor(1) as pool:
        session = transport.open(HELLO).session
        request = Request(session, (), 1, LEASE, wait_s=30)
        claim = pool.submit(transport.exchange, request)
        wait_until(lambda: gateway.waits)
        began = time.monotonic()
        transport.cancel_exchange(request)
        with pytest.raises(TransportFailed, match="broken off"):
            claim.result()
        assert time.monotonic() - began < BUSY_S
        transport.heartbeat(Heartbeat(session))
        transport.exchange(Request(session))


def test_exchange_is_broken_off_before_it_begins(gateway: HttpGateway) -> None:
    """The order may overtake the call on its way between two threads."""
    with agent_of(gateway) as transport:
        session = transport.open(HELLO).session
        request = Request(session, (), 1, LEASE, wait_s=30)
        transport.cancel_exchange(request)
        with pytest.raises(TransportFailed, match="broken off"):
            transport.exchange(request)
        assert transport.exchange(Request(session, (), 1, NEXT, wait_s=30)).tasks


def test_nothing_is_left_after_the_end(gateway: HttpGateway) -> None:
    """A partial file that is complete already is found to be so."""
    with agent_of(gateway) as transport:
        transport.open(HELLO)
        gateway.substitute = lambda _: Reply(416)
        assert list(transport.read_blob(DIGEST, len(BLOB))) == []


def test_connection_in_use_at_the_end_closes_with_its_request(gateway: HttpGateway) -> None:
    """Another thread may wait for an answer when the transport closes."""
    gateway.queue = queue_of(0)
    with ThreadPoolExecutor(1) as pool:
        with agent_of(gateway) as transport:
            session = transport.open(HELLO).session
            claim = pool.submit(transport.exchange, Request(session, (), 1, LEASE, wait_s=30))
            wait_until(lambda: gateway.waits)
        gateway.queue.add({"n": 0})
        assert len(claim.result(60).tasks) == 1
        wait_until(lambda: gateway.ended() == gateway.connections())
        del transport  # it lived until here, so nothing else closed the connection


def test_many_threads_share_a_transport(gateway: HttpGateway) -> None:
    """Slots, beats and exchanges at once get each its own answer."""
    failed = threading.Event()
    with agent_of(gateway) as transport:
        session = transport.open(HELLO).session
        transport.write_blob(DIGEST, BLOB)

        def work(number: int) -> None:
            for _ in range(10):
                if number % 2:
                    transport.heartbeat(Heartbeat(session))
                elif b"".join(transport.read_blob(DIGEST, number)) != BLOB[number:]:
                    failed.set()

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
    assert not failed.is_set()
