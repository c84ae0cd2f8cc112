"""Agents with several gateways, gateways that send them away, and blobs over HTTP."""

from __future__ import annotations

import pytest

from taskq_agent.errors import Refused, TransportFailed
from taskq_agent.protocol import Heartbeat, Orders, Request
from tests.helpers.memory_gateway import HttpGateway, Reply, error, gateway_of
from tests.helpers.memory_queue import MemoryQueue
from tests.integration.agent.http.support import BLOB, DIGEST, HELLO, agent_of


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("2.5", 2.5), ("0", 0.0), ("-3", 0.0), ("1e9", 300.0), ("nan", None), ("soon", None)],
)
def test_time_to_come_back_is_passed_on(
    gateway: HttpGateway, said: str, seconds: float | None
) -> None:
    gateway.substitute = lambda _: error(503, "busy", Retry_After=said)
    with agent_of(gateway) as transport:
        with pytest.raises(TransportFailed) as failure:
            transport.open(HELLO)
        assert failure.value.retry_after_s == seconds
    assert len(gateway.seen) == 1


def test_next_gateway_serves_when_one_fails(gateway: HttpGateway, queue: MemoryQueue) -> None:
    """Within the same call, so that nobody notices; then the failed one is left alone."""
    with gateway_of(queue) as dead, agent_of(dead, gateway) as transport:
        dead.close()
        session = transport.open(HELLO).session
        transport.heartbeat(Heartbeat(session))
    assert len(gateway.seen) == 2


@pytest.mark.parametrize(
    "reply",
    [
        error(503, "draining"),
        error(503, "unavailable", Retry_After="5"),
        Reply(503, b"<h1>No server is available", own=False),
        Reply(502, own=False),
        Reply(200, b"garbage"),
        Reply(hang_up=True),
    ],
)
def test_next_gateway_serves_when_one_talks_nonsense(
    gateway: HttpGateway, queue: MemoryQueue, reply: Reply
) -> None:
    with gateway_of(queue) as other, agent_of(gateway, other) as transport:
        gateway.substitute = lambda _: reply
        other.tokens = gateway.tokens  # both serve one queue
        session = transport.open(HELLO).session
        transport.heartbeat(Heartbeat(session))
        assert (len(gateway.seen), len(other.seen)) == (1, 2)


def test_busy_queue_is_not_asked_through_another_gateway(
    gateway: HttpGateway, queue: MemoryQueue
) -> None:
    """That would double the load just when it is too much."""
    with gateway_of(queue) as other, agent_of(gateway, other) as transport:
        gateway.substitute = lambda _: error(503, "busy", Retry_After="1")
        with pytest.raises(TransportFailed):
            transport.open(HELLO)
        assert other.seen == []


def test_agent_moves_to_another_gateway_when_ordered(
    gateway: HttpGateway, queue: MemoryQueue
) -> None:
    """Also to a gateway whose address came with the same answer."""
    with gateway_of(queue) as other, agent_of(gateway) as transport:
        other.tokens = gateway.tokens  # both serve one queue
        session = transport.open(HELLO).session
        gateway.orders = Orders(elsewhere=True, gateways=(gateway.url, other.url))
        transport.exchange(Request(session))
        transport.exchange(Request(session))
        transport.heartbeat(Heartbeat(session))
        assert (len(gateway.seen), len(other.seen)) == (2, 2)


def test_blob_goes_there_and_back(gateway: HttpGateway) -> None:
    with agent_of(gateway) as transport:
        transport.open(HELLO)
        transport.write_blob(DIGEST, BLOB)
        assert b"".join(transport.read_blob(DIGEST, 0)) == BLOB
        assert b"".join(transport.read_blob(DIGEST, 1_000_000)) == BLOB[1_000_000:]
    assert gateway.connections() == 1


def test_blob_that_breaks_off_is_a_failure(gateway: HttpGateway) -> None:
    """What had come is there, and the rest can be asked for."""
    cut = Reply(200, BLOB[:300_000], (("Content-Length", str(len(BLOB))),), hang_up=True)
    with agent_of(gateway) as transport:
        transport.open(HELLO)
        transport.write_blob(DIGEST, BLOB)
        gateway.substitute = lambda _: cut
        got: list[bytes] = []
        with pytest.raises(TransportFailed):
            got.extend(transport.read_blob(DIGEST, 0))
        assert sum(map(len, got)) == 300_000
        gateway.substitute = lambda _: None
        got.extend(transport.read_blob(DIGEST, 300_000))
    assert b"".join(got) == BLOB


def test_server_that_knows_no_ranges_will_do(gateway: HttpGateway) -> None:
    with agent_of(gateway) as transport:
        transport.open(HELLO)
        gateway.substitute = lambda _: Reply(200, BLOB)
        assert b"".join(transport.read_blob(DIGEST, 500_000)) == BLOB[500_000:]


def test_blobs_that_cannot_be_had_or_stored_are_refused(gateway: HttpGateway) -> None:
    with agent_of(gateway) as transport:
        transport.open(HELLO)
        with pytest.raises(Refused):
            list(transport.read_blob("0" * 64, 0))
        with pytest.raises(Refused):
            transport.write_blob("0" * 64, BLOB)


def test_blobs_wait_for_the_next_session(gateway: HttpGateway) -> None:
    """Anyone who transfers them does not open sessions: it tries again later."""
    with agent_of(gateway) as transport:
        with pytest.raises(TransportFailed, match="no session"):
            transport.write_blob(DIGEST, BLOB)
        transport.open(HELLO)
        gateway.substitute = lambda _: error(410, "session_lost")
        with pytest.raises(TransportFailed):
            transport.write_blob(DIGEST, BLOB)
        with pytest.raises(TransportFailed):
            list(transport.read_blob(DIGEST, 0))
