"""How the agent comes to its gateway: certificates that it verifies, proxies on the way."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

import pytest

from taskq.db.gateway_queries import GatewayQueries
from taskq.model.errors import Unavailable
from taskq_agent.errors import TransportFailed
from taskq_agent.http.connections import Dialer, tls_context
from taskq_agent.http.gateways import GatewayList
from taskq_agent.http.transport import HttpTransport
from taskq_agent.lease_ids import new_lease
from taskq_agent.protocol import Heartbeat, Hello, Request
from taskq_agent.self_test import Node, Unfit, check_node
from tests.helpers.certificates import NAME, Certificates
from tests.helpers.http_proxy import proxy_of
from tests.helpers.memory_gateway import TOKEN, HttpGateway, gateway_of
from tests.helpers.threaded_agent import queue_of
from tests.helpers.waiting import wait_until

HELLO = Hello(new_lease(), "/test", "agent", "host", 1, "site", 1, "0")
VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def gateway(certificates: Certificates) -> Iterator[HttpGateway]:
    with gateway_of(queue_of(1), certificates.server()) as gateway:
        yield gateway


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def transport_of(url: str, tls: ssl.SSLContext | None = None, **options: bool) -> HttpTransport:
    return HttpTransport(GatewayList([url], **options), TOKEN, Dialer(tls))


def open_and_beat(transport: HttpTransport) -> None:
    with transport:
        transport.heartbeat(Heartbeat(transport.open(HELLO).session))


# Certificates


def test_agent_uses_tls(gateway: HttpGateway, certificates: Certificates) -> None:
    open_and_beat(transport_of(gateway.url, tls_context(certificates.ca)))
    assert gateway.connections() == 1, "one handshake serves all"


def test_unknown_authority_is_not_trusted(gateway: HttpGateway) -> None:
    """The token is not sent to anyone who answers."""
    with pytest.raises(TransportFailed, match="CERTIFICATE_VERIFY_FAILED"):
        open_and_beat(transport_of(gateway.url))
    assert gateway.seen == []


def test_certificate_of_another_name_is_not_trusted(certificates: Certificates) -> None:
    with gateway_of(queue_of(1), certificates.server("other.test")) as gateway:
        with pytest.raises(TransportFailed, match="CERTIFICATE_VERIFY_FAILED"):
            open_and_beat(transport_of(gateway.url, tls_context(certificates.ca)))
        assert gateway.seen == []


@pytest.mark.parametrize(
    ("names", "ended", "trusts", "advice"),
    [
        (("127.0.0.1",), datetime(2026, 1, 1, tzinfo=timezone.utc), True, "needs a new one"),
        (("other.test",), None, True, "use a name that the certificate has"),
        (("127.0.0.1",), None, False, "name an authority of your own by"),
    ],
)
def test_error_names_what_is_wrong_with_a_certificate(
    certificates: Certificates,
    tmp_path: Path,
    names: tuple[str],
    ended: datetime | None,
    trusts: bool,
    advice: str,
) -> None:
    """To agents before they claim, and to people."""
    ca = certificates.ca if trusts else None
    with gateway_of(queue_of(1), certificates.server(*names, ended=ended)) as gateway:
        node = Node(tmp_path, GatewayList([gateway.url]), Dialer(tls_context(ca)))
        with pytest.raises(Unfit, match=advice):
            check_node(node)
        with pytest.raises(Unavailable, match=advice):
            GatewayQueries(gateway.url, TOKEN, ca=ca).rows("campaign", path="/")
    assert gateway.seen == []


def test_client_certificate_is_presented(certificates: Certificates) -> None:
    with gateway_of(queue_of(1), certificates.server(clients_only=True)) as gateway:
        with pytest.raises(TransportFailed):
            open_and_beat(transport_of(gateway.url, tls_context(certificates.ca)))
        open_and_beat(transport_of(gateway.url, tls_context(certificates.ca, certificates.client)))


def test_server_without_tls_is_a_failure(certificates: Certificates) -> None:
    with gateway_of(queue_of(1)) as gateway:
        url = gateway.url.replace("http", "https")
        with pytest.raises(TransportFailed, match=f"no TLS is spoken there; is it {gateway.url}"):
            open_and_beat(transport_of(url, tls_context(certificates.ca)))


def test_file_that_holds_no_certificate_is_an_error(tmp_path: Path) -> None:
    """It names the option and the file."""
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(ValueError, match=r"--ca .*ca\.pem: .*ertificate"):
        tls_context(tmp_path / "ca.pem")


def test_waiting_exchange_is_broken_off_under_tls(
    gateway: HttpGateway, certificates: Certificates
) -> None:
    gateway.queue = queue_of(0)
    with (
        transport_of(gateway.url, tls_context(certificates.ca)) as transport,
        ThreadPoolExecutor(1) as pool,
    ):
        session = transport.open(HELLO).session
        request = Request(session, (), 1, new_lease(), wait_s=30)
        claim = pool.submit(transport.exchange, request)
        wait_until(lambda: gateway.waits)
        transport.cancel_exchange(request)
        with pytest.raises(TransportFailed, match="broken off"):
            claim.result(60)
        transport.heartbeat(Heartbeat(session))


# Proxies


def test_proxy_joins_agent_and_gateway(
    gateway: HttpGateway, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the proxy that resolves the name, and what it joins is TLS from end to end."""
    with proxy_of("me:s p@ce") as proxy:
        monkeypatch.setenv("https_proxy", f"http://me:s%20p%40ce@{proxy.place}")
        url = f"https://{NAME}:{gateway.port}"
        open_and_beat(transport_of(url, tls_context(certificates.ca)))
        assert [line for line, _ in proxy.asked] == [f"CONNECT {NAME}:{gateway.port}"]
    assert len(gateway.seen) == 2


def test_proxy_that_turns_us_away_is_a_failure(
    gateway: HttpGateway, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxy_of("me:secret") as proxy:
        monkeypatch.setenv("https_proxy", f"http://me:wrong@{proxy.place}")
        url = f"https://{NAME}:{gateway.port}"
        with pytest.raises(TransportFailed, match="407"):
            open_and_beat(transport_of(url, tls_context(certificates.ca)))
    assert gateway.seen == []


def test_proxy_forwards_http(monkeypatch: pytest.MonkeyPatch) -> None:
    with gateway_of(queue_of(1)) as gateway, proxy_of("me:secret") as proxy:
        monkeypatch.setenv("http_proxy", f"me:secret@{proxy.place}")
        url = f"http://{NAME}:{gateway.port}"
        open_and_beat(transport_of(url, insecure=True))
        assert proxy.asked[0][0] == f"POST {url}/v1/sessions"
    assert [request.path for request in gateway.seen] == ["/v1/sessions", "/v1/beat"]


@pytest.mark.parametrize("variable", ["https_proxy", "ALL_PROXY"])
def test_unsupported_kind_of_proxy_is_named(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "socks5://127.0.0.1:1")
    with pytest.raises(TransportFailed, match="http://HOST:PORT"):
        open_and_beat(transport_of(f"https://{NAME}:1"))


def test_places_without_proxy_are_reached_directly(
    gateway: HttpGateway, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", NAME)
    resolve = socket.getaddrinfo
    monkeypatch.setattr("socket.getaddrinfo", lambda _, *rest: resolve("127.0.0.1", *rest))
    open_and_beat(transport_of(f"https://{NAME}:{gateway.port}", tls_context(certificates.ca)))


def test_loopback_is_never_behind_a_proxy(
    gateway: HttpGateway, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a token that may go in the clear to this machine does not go to another."""
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    open_and_beat(transport_of(gateway.url, tls_context(certificates.ca)))
