"""The end of a gateway, which answers everything that was asked; and agents that are banned."""

from __future__ import annotations

import signal
import threading
import time
import uuid
from collections.abc import Iterator

import pytest

from taskq import Client
from tests.fixtures.gateways import Realm, StartGateway, opened
from tests.helpers.waiting import BUSY_S, wait_until
from tests.integration.gateway.peers import Agent, Reply, hello, report_of

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


@pytest.mark.thorough
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


@pytest.mark.thorough
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


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_second_signal_ends_at_once(
    queue: Client, start_gateway: StartGateway, number: signal.Signals
) -> None:
    """Though agents are connected, and would get the order to leave for a minute yet."""
    place = Realm(queue, start_gateway("--drain", 600))
    place.agent()
    draining(place)
    began = time.monotonic()
    place.gateway.process.send_signal(number)
    place.gateway.ended()
    assert time.monotonic() - began < BUSY_S


@pytest.mark.thorough
def test_gateway_that_gets_sigterm_right_after_its_start_exits_with_0(
    start_gateway: StartGateway,
) -> None:
    """It does not die of the signal while it starts."""
    gateway = start_gateway("--drain", 600)
    gateway.process.send_signal(signal.SIGTERM)
    gateway.ended()


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_agents_of_a_banned_host_get_the_reason_with_a_heartbeat(realm: Realm) -> None:
    """Agents of other hosts in the same statement do not."""
    host = f"n{uuid.uuid4().hex}"
    bad, good = realm.agent(host=host), realm.agent(host="n1")
    realm.seed(2)
    (task,) = bad.claim(1)
    assert realm.queue.fleet.ban("host", host, why="its disk dies") == 1
    orders = bad.beat(task).json["orders"]
    assert (orders["drain"], orders["why"]) == (True, f"the host {host} is banned: its disk dies")
    assert not good.beat().json["orders"]["drain"]
    assert bad.report(task) == ["accepted"]
    said = hello(realm.path, host=host)
    reply = realm.gateway.ask("POST", "/v1/sessions", token=realm.site, body=said)
    assert (reply.status, reply.code) == (403, "forbidden")
    assert "is banned: its disk dies" in reply.json["error"]["message"]
    realm.queue.fleet.unban("host", host)
    reply = realm.gateway.ask("POST", "/v1/sessions", token=realm.site, body=said)
    assert reply.status == 200


@pytest.mark.thorough
def test_agent_that_waits_for_a_task_learns_of_a_ban(realm: Realm) -> None:
    """The heartbeat that its claim stands for finds the ban; the next claim brings the order."""
    host = f"n{uuid.uuid4().hex}"
    agent = realm.agent(host=host)
    realm.queue.fleet.ban("host", host, why="x")
    assert agent.claim(1, wait_s=30.0) == []
    assert agent.beat().json["orders"]["drain"]


def test_agents_of_a_bound_token_are_at_its_site_whatever_they_say(
    realm: Realm,
) -> None:
    """So a ban of the site, and limits there, hold for them; without that they go by their word."""
    site = f"s{uuid.uuid4().hex}"
    bound, free = realm.token("site", at_site=site), realm.token("site")

    def said(token: str, at: str) -> Reply:
        body = hello(realm.path, site=at)
        return realm.gateway.ask("POST", "/v1/sessions", token=token, body=body)

    numbers = [said(token, "elsewhere").json["session"] for token in (bound, free)]
    sites = {agent.session_id: agent.site for agent in realm.queue.agents(realm.path)}
    assert [sites[number] for number in numbers] == [site, "elsewhere"]
    assert realm.queue.fleet.ban("site", site, why="power cut") == 1
    assert said(bound, "elsewhere").status == 403
    assert said(free, "elsewhere").status == 200
