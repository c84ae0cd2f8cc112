"""TLS handshakes that are begun and not ended: they count, and end soon."""

from __future__ import annotations

import socket
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.fixtures.gateways import GatewayProcess, Realm, StartGateway, opened
from tests.helpers.waiting import wait_until
from tests.integration.gateway.impatient import ARRIVAL_S, MOST_OF_ADDRESS, MOST_SHAKING
from tests.integration.gateway.peers import Agent, Peer
from tests.integration.gateway.site import Site

pytestmark = pytest.mark.thorough

PROGRAM = (sys.executable, str(Path(__file__).with_name("impatient.py")))
#: The beginning of a ClientHello: the peer waits for the rest.
HALF = bytes.fromhex("1603010200010001fc0303") + bytes(32)


@pytest.fixture
def place(start_gateway: StartGateway, dsn: str, site: Site) -> Iterator[Realm]:
    """Give a campaign at a gateway that lets few shake hands, for a second."""
    gateway = start_gateway(*site.certificate, program=PROGRAM)
    with opened(dsn) as queue:
        yield Realm(queue, gateway)
    assert gateway.errors() == ""


def half_made(gateway: GatewayProcess, source: str, data: bytes = HALF) -> socket.socket:
    """Begin a handshake from an address of this machine."""
    begun = socket.create_connection(("127.0.0.1", gateway.port), 30, (source, 0))
    begun.settimeout(30 * ARRIVAL_S)
    begun.sendall(data)
    return begun


def is_open(begun: socket.socket) -> bool:
    """Return whether the other side has not hung up."""
    begun.setblocking(False)
    try:
        return begun.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


@pytest.mark.parametrize("data", [b"", HALF], ids=["silent", "half a hello"])
def test_half_made_handshake_ends_soon(place: Realm, data: bytes) -> None:
    """From when it was accepted, whatever was sent of it."""
    began = time.monotonic()
    with half_made(place.gateway, "127.0.0.1", data) as begun:
        try:
            while begun.recv(100):
                pass
        except ConnectionResetError:
            pass
    assert time.monotonic() - began > ARRIVAL_S / 2


def test_one_address_displaces_its_own_half_made_handshakes(place: Realm, site: Site) -> None:
    """And never those of another; who shakes hands in earnest is let in meanwhile."""
    with ExitStack() as open_:
        others = [open_.enter_context(half_made(place.gateway, "127.0.0.2"))]
        ours = [
            open_.enter_context(half_made(place.gateway, "127.0.0.3"))
            for _ in range(3 * MOST_OF_ADDRESS)
        ]
        wait_until(lambda: sum(map(is_open, ours)) <= MOST_OF_ADDRESS)
        peer = open_.enter_context(place.gateway.peer(tls=site.trust))
        assert peer.ask("GET", "/healthz").status == 200
        del others


def test_clients_are_served_during_many_unfinished_handshakes(place: Realm, site: Site) -> None:
    """However many there are: new agents come in, and connected ones are served."""

    def agent() -> Agent:
        peer = Peer(place.gateway.port, tls=site.trust)
        return Agent.enrolled(peer, place.site, {"campaign": place.path})

    known = agent()
    with ExitStack() as open_:
        for turn in range(4):
            for source in range(2, 2 + MOST_SHAKING):
                open_.enter_context(half_made(place.gateway, f"127.0.0.{source}"))
            assert known.exchange().status == 200
            fresh = agent()
            assert fresh.exchange().status == 200, turn
            fresh.peer.close()
    known.peer.close()


def test_half_made_handshakes_count_as_clients(
    start_gateway: StartGateway, site: Site, tmp_path: Path
) -> None:
    """Where no file is left for one more, it is closed at once instead of left to wait."""
    script = tmp_path / "narrow.py"
    script.write_text(
        "import resource\n"
        "from taskq_cli.main import main\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (108, 108))\n"  # 100 are for others
        "main()\n"
    )
    gateway = start_gateway(*site.certificate, program=(sys.executable, str(script)))
    with ExitStack() as open_:
        begun = [open_.enter_context(half_made(gateway, "127.0.0.1")) for _ in range(12)]
        wait_until(lambda: sum(map(is_open, begun)) == 8)

    def is_served() -> bool:
        try:
            return gateway.peer(tls=site.trust).ask("GET", "/healthz").status == 200
        except OSError:
            return False

    wait_until(is_served)


def test_goodbye_is_not_waited_for_long(place: Realm, site: Site) -> None:
    """A client that was answered for the last time, and sends on, is not listened to."""
    with place.gateway.peer(tls=site.trust) as peer:
        assert isinstance(peer.socket, ssl.SSLSocket)
        assert peer.ask("GET", "/healthz", headers=("connection: close",)).status == 200
        connection = peer.socket

        def is_cut() -> bool:
            try:
                for _ in range(100):
                    connection.send(bytes(65_536))
            except OSError:
                return True
            return False

        # However fast it sends.
        wait_until(is_cut, timeout_s=60)
