"""Agents through a proxy that ends TLS: HAProxy from Debian, with the file that docs/ gives."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from taskq import Client
from tests.fixtures.gateways import GatewayProcess, Realm, StartGateway
from tests.helpers.paths import ROOT
from tests.helpers.waiting import wait_until
from tests.integration.gateway.peers import Agent, Peer, hello

CONFIGURATION = ROOT / "docs" / "haproxy.cfg"
LATER_S = 100.0


@dataclass
class Proxy:
    """HAProxy, and what clients of it need. trusted, unknown: with and without a certificate."""

    port: int
    trusted: ssl.SSLContext
    unknown: ssl.SSLContext


@pytest.fixture
def gateways(start_gateway: StartGateway) -> list[GatewayProcess]:
    """Give two gateways that believe the proxy, which speaks from 127.0.0.1."""
    return [start_gateway("--proxy", "127.0.0.1") for _ in range(2)]


@pytest.fixture
def proxy(gateways: list[GatewayProcess], tmp_path: Path) -> Iterator[Proxy]:
    """Give a proxy in front of both."""
    program = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program, "these tests need HAProxy: `apt-get install haproxy` as root"
    authority = trustme.CA()
    server, client = (authority.issue_cert(name) for name in ("127.0.0.1", "agent.test"))
    clients, certificate = tmp_path / "clients.pem", tmp_path / "server.pem"
    authority.cert_pem.write_to_path(str(clients))
    server.private_key_and_cert_chain_pem.write_to_path(str(certificate))
    contexts = []
    for shown in (client, None):
        context = ssl.create_default_context()
        authority.configure_trust(context)
        if shown is not None:
            shown.configure_cert(context)
        contexts.append(context)
    port = _free_port()
    environment = {
        "TASKQ_BIND": f"127.0.0.1:{port}",
        "TASKQ_CERT": str(certificate),
        "TASKQ_CLIENTS": str(clients),
        "TASKQ_GATEWAY1": f"127.0.0.1:{gateways[0].port}",
        "TASKQ_GATEWAY2": f"127.0.0.1:{gateways[1].port}",
    }
    log = tmp_path / "haproxy.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [program, "-db", "-f", str(CONFIGURATION)],
            env=environment,
            stdout=output,
            stderr=output,
        )
    with process:
        proxy = Proxy(port, *contexts)
        try:
            wait_until(lambda: process.poll() is not None or _is_up(proxy), timeout_s=LATER_S)
            assert process.poll() is None, log.read_text()
            yield proxy
        finally:
            process.terminate()


@pytest.fixture
def place(gateways: list[GatewayProcess], queue: Client) -> Realm:
    """Give a campaign with tasks."""
    place = Realm(queue, gateways[0])
    place.seed(5)
    return place


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_up(proxy: Proxy) -> bool:
    try:
        with Peer(proxy.port, tls=proxy.trusted) as peer:
            return peer.ask("GET", "/readyz").status == 200
    except OSError:
        return False


@pytest.fixture
def peer(proxy: Proxy) -> Iterator[Peer]:
    """Give a connection of an agent with a certificate."""
    with Peer(proxy.port, tls=proxy.trusted) as peer:
        yield peer


def enrolled(peer: Peer, place: Realm) -> Agent:
    return Agent.enrolled(peer, place.site, {"campaign": place.path})


def test_client_without_a_certificate_is_turned_away(proxy: Proxy) -> None:
    """By the proxy: no gateway hears of it."""
    with pytest.raises(OSError, match=r"(?i)certificate|alert|reset|eof|closed"):
        _ask(proxy)


def _ask(proxy: Proxy) -> None:
    with Peer(proxy.port, tls=proxy.unknown) as peer:
        peer.ask("GET", "/healthz")


def test_agent_works_through_the_proxy(peer: Peer, place: Realm) -> None:
    """All that it does, on one kept connection."""
    agent = enrolled(peer, place)
    first, second = agent.claim(2)
    assert agent.beat(first, second).json["stop"] == []
    assert agent.report(first, second) == ["accepted", "accepted"]
    assert peer.ask("DELETE", "/v1/session", token=agent.token).status == 204


def test_claim_waits_through_the_proxy(proxy: Proxy, peer: Peer, place: Realm) -> None:
    """The proxy lets an answer take its time."""
    busy = enrolled(peer, place)
    assert len(busy.claim(5)) == 5
    with Peer(proxy.port, tls=proxy.trusted) as other:
        agent = enrolled(other, place)
        agent.peer.send(agent.wanting(lease=agent.lease(), wait_s=30))
        wait_until(lambda: _waiting(place) == 1)
        place.seed()
        assert len(agent.peer.reply().json["tasks"]) == 1


def _waiting(place: Realm) -> int:
    return place.gateway.metric("waiting", place.manager)


def test_networks_are_those_that_the_proxy_sees(proxy: Proxy, place: Realm) -> None:
    """Neither the proxy's own address counts, nor what a client says."""
    token = place.token("site", networks=["127.0.0.2/32"])
    forged = ("x-forwarded-for: 127.0.0.2", "forwarded: for=127.0.0.2")
    for source, status in (("127.0.0.2", 200), ("127.0.0.1", 403)):
        with Peer(proxy.port, tls=proxy.trusted, source=source) as peer:
            reply = peer.ask(
                "POST", "/v1/sessions", token=token, body=hello(place.path), headers=forged
            )
            assert reply.status == status


def test_only_the_proxy_is_believed(place: Realm) -> None:
    """A header from another address than --proxy is a stranger's word."""
    token = place.token("site", networks=["192.0.2.0/24"])
    said = ("x-forwarded-for: 192.0.2.7",)
    for source, status in (("127.0.0.3", 403), ("127.0.0.1", 200)):
        with place.gateway.peer(source=source) as peer:
            reply = peer.ask(
                "POST", "/v1/sessions", token=token, body=hello(place.path), headers=said
            )
            assert reply.status == status


@pytest.mark.parametrize("said", ["nonsense", "", "1.2.3.4.5", "::ffff:192.0.2.7", ", ,", "\xff"])
def test_malformed_address_from_a_proxy_is_refused_or_ignored(place: Realm, said: str) -> None:
    """It is no failure of the gateway."""
    headers = (f"x-forwarded-for: {said}",)
    body = hello(place.path)
    reply = place.gateway.ask("POST", "/v1/sessions", token=place.site, body=body, headers=headers)
    assert reply.status in {200, 400, 403, 422}


@pytest.mark.parametrize("which", [0, 1])
def test_other_gateway_takes_over(
    gateways: list[GatewayProcess], peer: Peer, place: Realm, which: int
) -> None:
    """One is killed under way; the session goes on at the other, with what it holds."""
    agent = enrolled(peer, place)
    (task,) = agent.claim()
    place.gateway = gateways[1 - which]
    gateways[which].kill()
    wait_until(lambda: agent.beat(task).status == 200, timeout_s=LATER_S)
    assert agent.report(task) == ["accepted"]
    assert len(agent.claim()) == 1


def test_draining_gateway_gets_no_more_agents(
    gateways: list[GatewayProcess], proxy: Proxy, peer: Peer, place: Realm
) -> None:
    """The proxy sees it by /readyz, and nobody sees a refusal after that."""
    agent = enrolled(peer, place)
    gateways[1].stop()

    def is_served() -> bool:
        with Peer(proxy.port, tls=proxy.trusted) as fresh:
            return agent.at(fresh).exchange().status == 200

    wait_until(is_served, timeout_s=LATER_S)
    for _ in range(5):
        assert is_served()
