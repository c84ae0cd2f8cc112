"""The end of a gateway: everything that was asked is answered, and agents go elsewhere."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator

import pytest

from taskq import Client
from tests.fixtures.gateways import Realm, StartGateway, opened
from tests.helpers.waiting import BUSY_S, wait_until
from tests.integration.gateway.peers import Agent, Reply, report_of

pytestmark = pytest.mark.thorough

OTHER = "https://other.test:8443"


@pytest.fixture
def queue(dsn: str) -> Iterator[Client]:
    """Give the queue."""
    with opened(dsn) as queue:
        yield queue


def draining(place: Realm) -> None:
    """Begin the end, and see that it has begun."""
    place.gateway.process.send_signal(signal.SIGTERM)
    wait_until(lambda: place.gateway.ask("GET", "/readyz").status == 503)


def test_draining_gateway_sends_agents_elsewhere(
    queue: Client, start_gateway: StartGateway
) -> None:
    """It hands out nothing more, still takes reports in, and tells everybody where to go."""
    place = Realm(queue, start_gateway("--gateway", OTHER))
    place.seed(2)
    agent, waiting, stranger = place.agent(), place.agent(), place.agent()
    (task,) = agent.claim()
    assert len(stranger.claim()) == 1
    waiting.peer.send(waiting.wanting(lease=waiting.lease(), wait_s=30))
    wait_until(lambda: place.gateway.metric("waiting", place.manager) == 1)
    draining(place)
    let_go = waiting.peer.reply().json
    assert (let_go["tasks"], let_go["orders"]["elsewhere"]) == ([], True)
    assert let_go["orders"]["gateways"] == [OTHER]
    refused = stranger.exchange(want=1, lease=stranger.lease())
    assert (refused.status, refused.code) == (503, "draining")
    assert float(refused.headers["retry-after"]) > 0
    reported = agent.exchange(reports=[report_of(task)], want=1, lease=agent.lease()).json
    assert [ack["verdict"] for ack in reported["acks"]] == ["accepted"]
    assert (reported["tasks"], reported["orders"]["elsewhere"]) == ([], True)
    assert agent.beat().json["orders"]["elsewhere"] is True
    reply = place.gateway.ask("POST", "/v1/sessions", token=place.site, body=agent.hello)
    assert (reply.status, reply.code) == (503, "draining")
    assert place.gateway.ask("GET", "/healthz").status == 200
    place.gateway.hang_up()
    began = time.monotonic()
    place.gateway.ended()
    assert time.monotonic() - began < BUSY_S, "nobody is connected any more"


def test_no_answer_is_cut_under_load(queue: Client, start_gateway: StartGateway) -> None:
    """Each exchange that has been sent when the end comes gets its whole answer."""
    place = Realm(queue, start_gateway("--drain", 1))
    place.seed(2_000)
    agents = [place.agent() for _ in range(8)]
    cut: list[BaseException] = []
    begun = threading.Barrier(len(agents) + 1)

    def work(agent: Agent) -> None:
        reply: Reply | None = None
        try:
            for number in range(100_000):
                agent.peer.send(agent.wanting(lease=agent.lease()))
                reply = agent.peer.reply()
                if number == 5:
                    begun.wait(60)
                if reply.status != 200 or reply.headers.get("connection") == "close":
                    return
        except ConnectionError as error:
            # Closed between two requests, which a kept connection may be at any time.
            if "without an answer" not in str(error) and "pipe" not in str(error).lower():
                cut.append(error)
        except BaseException as error:
            cut.append(error)
            raise

    threads = [threading.Thread(target=work, args=(agent,)) for agent in agents]
    for thread in threads:
        thread.start()
    begun.wait(60)
    place.gateway.process.send_signal(signal.SIGTERM)
    for thread in threads:
        thread.join()
    assert cut == []
    place.gateway.ended()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_second_signal_ends_at_once(
    queue: Client, start_gateway: StartGateway, number: signal.Signals
) -> None:
    """Though agents are connected, and would be told to leave for a minute yet."""
    place = Realm(queue, start_gateway("--drain", 60))
    place.agent()
    draining(place)
    began = time.monotonic()
    place.gateway.process.send_signal(number)
    place.gateway.ended()
    assert time.monotonic() - began < BUSY_S


def test_gateway_can_be_told_to_end_as_soon_as_it_has_told_its_address(
    start_gateway: StartGateway,
) -> None:
    """A supervisor that changes its mind gets exit code 0, not a death by the signal."""
    gateway = start_gateway("--drain", 60)
    gateway.process.send_signal(signal.SIGTERM)
    gateway.ended()


@pytest.mark.parametrize("what", ["half a request", "an unread download"])
def test_peer_that_hangs_does_not_keep_it_from_ending(
    queue: Client, start_gateway: StartGateway, what: str
) -> None:
    """When the time for leaving is up, it is up."""
    place = Realm(queue, start_gateway("--drain", 0.5))
    peer = place.gateway.peer()
    peer.send(b"POST /v1/exchange HTTP/1.1\r\ncontent-length: 5\r\n\r\n{")
    if what == "an unread download":
        peer.send(b"    " + b"GET /v1/openapi.json HTTP/1.1\r\n\r\n" * 2_000)
    began = time.monotonic()
    place.gateway.process.send_signal(signal.SIGTERM)
    place.gateway.ended()
    assert time.monotonic() - began < BUSY_S
