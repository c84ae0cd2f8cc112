"""Agents with several gateways, and gateways that send them away."""

from __future__ import annotations

import pytest

from taskq_agent.errors import TransportFailed
from taskq_agent.protocol import Heartbeat, Orders, Request
from tests.helpers.memory_gateway import HttpGateway, Reply, error, gateway_of
from tests.helpers.memory_queue import MemoryQueue
from tests.integration.agent.http.support import HELLO, agent_of


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
        Reply(503, b"<h1>No server is available"),
        Reply(502),
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


def test_agent_goes_elsewhere_when_told(gateway: HttpGateway, queue: MemoryQueue) -> None:
    """To a gateway that it has just been told of, if need be."""
    with gateway_of(queue) as other, agent_of(gateway) as transport:
        other.tokens = gateway.tokens  # both serve one queue
        session = transport.open(HELLO).session
        gateway.orders = Orders(elsewhere=True, gateways=(gateway.url, other.url))
        transport.exchange(Request(session))
        transport.exchange(Request(session))
        transport.heartbeat(Heartbeat(session))
        assert (len(gateway.seen), len(other.seen)) == (2, 2)
