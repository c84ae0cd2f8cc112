"""Clients that do not take their answers: what a gateway keeps for them, and what others notice."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from taskq.files.blobs import DatabaseBlobs
from taskq.gateway.http.kept_bytes import MOST_UNTAKEN_BYTES_OF_TOKEN
from tests.fixtures.gateways import GatewayProcess, Realm, StartGateway, opened
from tests.helpers.waiting import wait_until
from tests.integration.gateway.peers import Agent, Peer, request_bytes
from tests.integration.gateway.site import Site

READERS = 200
MIB = 1 << 20
BLOB_MIB = 8
#: MiB by which a gateway may grow: what it keeps of answers, and connections, threads, statements
#: and the allocator; a connection with TLS has a third of a MiB. Twice what was seen: the order in
#: which threads free what they read is not the same twice. Unbounded, 300 added 1,300.
ROOM_MIB = 2 * (MOST_UNTAKEN_BYTES_OF_TOKEN // MIB + 72 + READERS // 3)
#: MiB that may be left afterwards: what the allocator keeps, up to 45 were seen.
LEFT_MIB = 100


class Place(Realm):
    """A campaign with a large input, at a gateway of its own. tls: whether that speaks it."""

    def __init__(self, queue: object, gateway: GatewayProcess, folder: Path, site: Site) -> None:
        super().__init__(queue, gateway)  # type: ignore[arg-type]  # a client
        file = folder / "input"
        self.data = os.urandom(BLOB_MIB * MIB)
        file.write_bytes(self.data)
        self.campaign.add_input(file, blobs=DatabaseBlobs(self.queue.database))
        (digest,) = [value.digest for value in self.campaign.inputs().values()]
        self.blob = f"/v1/blobs/{digest}"
        self.tls = site.trust if gateway.url.startswith("https") else None

    def peer(self) -> Peer:
        """Return a connection."""
        return self.gateway.peer(tls=self.tls)

    def new_agent(self) -> Agent:
        """Return an agent with a session of its own."""
        return Agent.enrolled(self.peer(), self.site, {"campaign": self.path})


@pytest.fixture(params=["plain", "tls"])
def place(
    request: pytest.FixtureRequest,
    start_gateway: StartGateway,
    dsn: str,
    tmp_path: Path,
    site: Site,
) -> Iterator[Place]:
    """Give a campaign at a gateway."""
    gateway = start_gateway(*(site.certificate if request.param == "tls" else ()))
    with opened(dsn) as queue:
        yield Place(queue, gateway, tmp_path, site)


def blobs(place: Place) -> bytes:
    """Ask for a blob."""
    return request_bytes("GET", place.blob, token=place.manager)


def ranges(place: Place) -> bytes:
    """Ask for most of it."""
    return request_bytes("GET", place.blob, token=place.manager, headers=("range: bytes=9-",))


def blobs_in_http_1_0(place: Place) -> bytes:
    """Ask in the old way."""
    return request_bytes("GET", place.blob, token=place.manager, version="1.0")


def inputs_of_many_sessions(place: Place) -> bytes:
    """Ask as another agent of one site each time."""
    return request_bytes("GET", place.blob, token=place.new_agent().token)


def blobs_and_an_end(place: Place) -> bytes:
    """Ask for more than one, one after the other."""
    return blobs(place) * 30


def files_of_the_agent(_: Place) -> bytes:
    """Ask without a token, as often as it is taken in."""
    return request_bytes("GET", "/taskq-agent.pyz") * 60


def documents(_: Place) -> bytes:
    """Ask for what describes the gateway."""
    return request_bytes("GET", "/v1/openapi.json") * 60


def metrics(place: Place) -> bytes:
    """Ask for what Prometheus wants."""
    return request_bytes("GET", "/metrics", token=place.manager) * 60


def large_claims(place: Place) -> bytes:
    """Ask for the same tasks again and again, 3 MiB of payloads."""
    if not place.campaign.status().waiting:
        place.campaign.seed({"n": n, "x": "y" * 60_000} for n in range(50))
        place.greedy = place.new_agent()
        place.greedy.lease()
    return place.greedy.wanting(50) * 20


ATTACKS = (
    blobs,
    large_claims,
    inputs_of_many_sessions,
    ranges,
    blobs_in_http_1_0,
    blobs_and_an_end,
    files_of_the_agent,
    documents,
    metrics,
)


@pytest.mark.thorough
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda value: value.__name__)
def test_answers_that_nobody_takes_are_bounded_and_cost_no_other(
    place: Place, attack: Callable[[Place], bytes]
) -> None:
    """In memory, whatever is asked for; another token is served, and at the end all is free."""
    other = place.token("manager")
    asked = request_bytes("GET", place.blob, token=other)
    with place.peer() as peer:  # what the first answers leave is no growth
        peer.send(asked)
        assert peer.reply().body == place.data
    before = most = place.gateway.memory_mb()
    with ExitStack() as stack:
        for _ in range(READERS):
            peer = stack.enter_context(place.peer())
            peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
            peer.socket.settimeout(0.2)
            with suppress(TimeoutError):  # no more is taken in
                peer.send(attack(place))
            most = max(most, place.gateway.memory_mb())
        deadline = time.monotonic() + 4
        while time.monotonic() < deadline:
            most = max(most, place.gateway.memory_mb())
            with place.peer() as peer:
                peer.send(asked)
                assert peer.reply().body == place.data
        assert most - before < ROOM_MIB
    wait_until(lambda: place.gateway.memory_mb() - before < LEFT_MIB)
    with place.peer() as peer:  # the room of those who have left is free
        peer.send(request_bytes("GET", place.blob, token=place.manager))
        assert peer.reply().body == place.data


def test_honest_crowd_on_a_narrow_line_is_slowed_and_not_cut(realm: Realm, tmp_path: Path) -> None:
    """More readers of one token than have room at a time: each gets its input, whole."""
    data = os.urandom(3 * MIB)
    file = tmp_path / "input"
    file.write_bytes(data)
    realm.campaign.add_input(file, blobs=DatabaseBlobs(realm.queue.database))
    (found,) = realm.campaign.inputs().values()
    request = request_bytes("GET", f"/v1/blobs/{found.digest}", token=realm.agent().token)
    count = 2 * MOST_UNTAKEN_BYTES_OF_TOKEN // MIB

    def read(_: int) -> bool:
        with realm.gateway.peer() as peer:
            peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
            peer.send(request)
            return peer.reply().body == data

    with ThreadPoolExecutor(count) as pool:
        assert all(pool.map(read, range(count)))


@pytest.mark.thorough
@pytest.mark.parametrize("place", ["plain"], indirect=True)
def test_client_that_ends_its_direction_keeps_nothing(place: Place) -> None:
    """Half of a connection is none: what was asked for is not fetched for nobody."""
    for _ in range(20):
        with place.gateway.peer() as peer:
            peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
            peer.send(request_bytes("GET", place.blob, token=place.manager))
            peer.socket.shutdown(socket.SHUT_WR)
            before = place.gateway.memory_mb()
    asked = request_bytes("GET", place.blob, token=place.token("manager"))
    with place.peer() as peer:
        peer.send(asked)
        assert peer.reply().body == place.data
    assert place.gateway.memory_mb() - before < LEFT_MIB
