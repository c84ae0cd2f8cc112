"""Clients that take their time: cut when it is up, and only then."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskq.files.blobs import open_blobs
from tests.fixtures.gateways import Realm, StartGateway, opened
from tests.helpers.waiting import wait_until
from tests.integration.gateway.impatient import ARRIVAL_S
from tests.integration.gateway.peers import Peer, request_bytes

pytestmark = pytest.mark.thorough

PROGRAM = (sys.executable, str(Path(__file__).with_name("impatient.py")))


@pytest.fixture
def place(start_gateway: StartGateway, dsn: str) -> Iterator[Realm]:
    """Give a campaign at a gateway that waits for a second only."""
    gateway = start_gateway(program=PROGRAM)
    with opened(dsn) as queue:
        yield Realm(queue, gateway)


def connections(place: Realm) -> int:
    """Return how many are connected, but for who asks."""
    return place.gateway.metric("connections", place.manager) - 1


def assert_is_cut(peer: Peer, *, has_begun: bool = True) -> None:
    """See the connection end by itself, and why, if a request has begun."""
    peer.socket.settimeout(30 * ARRIVAL_S)
    if has_begun:
        reply = peer.reply()
        assert (reply.status, reply.code) == (408, "too_slow")
        assert reply.headers["connection"] == "close"
    assert peer.is_closed()


@pytest.mark.parametrize("path", ["/v1/exchange", "/v1/beat"])
def test_request_that_never_arrives_in_full_is_given_up(place: Realm, path: str) -> None:
    """Wherever it stops: before it begins, in its headers, before or in its body."""
    agent = place.agent()
    request = request_bytes("POST", path, token=agent.token, body={"want": 0})
    body = request.index(b"{")
    for place_ in (0, 1, 20, body - 2, body, len(request) - 1):
        with place.gateway.peer() as peer:
            peer.send(request[:place_])
            assert_is_cut(peer, has_begun=place_ > 0)
    wait_until(lambda: connections(place) == 1)


@pytest.mark.parametrize("path", ["/v1/exchange", "/v1/beat", "/healthz"])
def test_request_that_trickles_is_given_up(place: Realm, path: str) -> None:
    """A byte now and then does not buy time."""
    request = request_bytes("POST", path, body={}, headers=("x: " + "y" * 1_000,))
    began = time.monotonic()
    with place.gateway.peer() as peer, pytest.raises(OSError, match=r"reset|pipe"):  # noqa: PT012  # whichever byte it is
        for byte in request:
            peer.send(bytes([byte]))
            time.sleep(ARRIVAL_S / 20)  # no synchronisation: this is the client's pace
    assert time.monotonic() - began > ARRIVAL_S / 2


def test_request_behind_another_is_given_up_after_its_answer(place: Realm) -> None:
    """While the one before it waits for us, nobody waits for the client."""
    place.seed()
    busy, agent = place.agent(), place.agent()
    assert len(busy.claim()) == 1
    waiting = agent.request(want=1, lease=agent.lease(), wait_s=3 * ARRIVAL_S)
    agent.peer.send(waiting + agent.request()[:-1])
    assert agent.peer.reply().json["tasks"] == []
    assert_is_cut(agent.peer)


def test_second_request_has_as_much_time_as_the_first(place: Realm) -> None:
    """And a kept connection is not cut while nothing is sent on it."""
    agent = place.agent()
    time.sleep(2 * ARRIVAL_S)  # no synchronisation: this is the silence
    assert agent.exchange().status == 200
    agent.peer.send(agent.request()[:-1])
    assert_is_cut(agent.peer)


def test_patient_client_is_not_cut(place: Realm) -> None:
    """Who waits for us is not slow: a long poll goes on for as long as was asked for."""
    place.seed()
    busy, agent = place.agent(), place.agent()
    assert len(busy.claim()) == 1
    began = time.monotonic()
    reply = agent.exchange(want=1, lease=agent.lease(), wait_s=2 * ARRIVAL_S)
    assert reply.json["tasks"] == []
    assert time.monotonic() - began > 2 * ARRIVAL_S - 0.1


def test_client_that_never_reads_costs_little_and_is_given_up(place: Realm) -> None:
    """Its answers are not heaped up for it."""
    agent = place.agent()
    agent.exchange()
    before = place.gateway.memory_mb()
    assert_stuck(agent.peer, agent.request() * 100)
    assert place.gateway.memory_mb() < before + 32
    wait_until(lambda: connections(place) == 0)


def test_download_that_is_never_read_is_given_up(place: Realm) -> None:
    """It holds neither the blob in memory nor its connection for ever."""
    data = os.urandom(32 << 20)
    # Past the gateway, which would cut a slow upload.
    digest, _ = open_blobs(place.queue.database).put([data])
    path = f"/v1/blobs/{digest}"
    peer = place.gateway.peer()
    peer.send(request_bytes("GET", path, token=place.manager))
    assert peer.socket.recv(1), "it has begun"
    wait_until(lambda: connections(place) == 0)


def assert_stuck(peer: Peer, data: bytes) -> None:
    """Send for as long as the other side takes it in; that must come to an end."""
    peer.socket.settimeout(1.0)
    deadline = time.monotonic() + 60
    with pytest.raises(OSError, match=r"timed out|reset|pipe"):  # noqa: PT012  # so far
        while time.monotonic() < deadline:
            peer.socket.send(data)


def test_upload_may_take_longer_than_a_message(place: Realm) -> None:
    """A large result comes over a slow connection: what keeps arriving is not slow."""
    for _ in range(20):
        longest_s, status = upload_slowly(place)
        if status == 204:
            return
        # This machine kept us waiting, so the gateway was right: once more.
        assert longest_s > ARRIVAL_S / 2, status
    pytest.fail("this machine keeps the client waiting for longer than the gateway does")


def upload_slowly(place: Realm) -> tuple[float, int]:
    """Upload in small steps; return the longest pause in seconds, and the status, 0 if cut."""
    agent = place.agent()
    data = os.urandom(1 << 20)
    path = f"/v1/blobs/{hashlib.sha256(data).hexdigest()}"
    request = request_bytes("PUT", path, token=agent.token, body=data)
    step = len(request) // 30 + 1
    longest_s, last = 0.0, time.monotonic()
    try:
        for start in range(0, len(request), step):
            agent.peer.send(request[start : start + step])
            longest_s = max(longest_s, time.monotonic() - last)
            last = time.monotonic()
            time.sleep(ARRIVAL_S / 15)  # no synchronisation: this is the pace of the connection
        return longest_s, agent.peer.reply().status
    except OSError:
        return max(longest_s, time.monotonic() - last), 0
