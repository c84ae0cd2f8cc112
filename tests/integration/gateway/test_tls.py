"""TLS by the gateway itself: new enough, and with a certificate that may change under way."""

from __future__ import annotations

import signal
import ssl
import warnings
from pathlib import Path

import pytest
import trustme

from taskq.gateway.listening import ServerCertificate
from taskq.model.errors import NotFound, UsageError
from tests.fixtures.gateways import GatewayProcess, StartGateway
from tests.helpers.waiting import wait_until
from tests.integration.gateway.peers import Peer


class Authority:
    """Issues certificates for a gateway into two files."""

    def __init__(self, folder: Path) -> None:
        self._ca = trustme.CA()
        self.chain, self.key = folder / "chain.pem", folder / "key.pem"
        self.words = ("--tls-cert", self.chain, "--tls-key", self.key)
        self.issue()

    def issue(self) -> None:
        """Put a new certificate in the place of the old one, as renewal tools do."""
        certificate = self._ca.issue_cert("127.0.0.1")
        for path, pem in (
            (self.key, certificate.private_key_pem.bytes()),
            (self.chain, b"".join(one.bytes() for one in certificate.cert_chain_pems)),
        ):
            fresh = path.with_suffix(".new")
            fresh.write_bytes(pem)
            fresh.replace(path)

    def client(self) -> ssl.SSLContext:
        """Return what a client that trusts this authority needs."""
        context = ssl.create_default_context()
        self._ca.configure_trust(context)
        return context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Give an authority that has issued a certificate."""
    return Authority(tmp_path)


@pytest.fixture
def gateway(start_gateway: StartGateway, authority: Authority) -> GatewayProcess:
    """Give a gateway with that certificate."""
    return start_gateway(*authority.words, expected=["the certificate stays as it was"])


def served(peer: Peer) -> bytes:
    """Return the certificate that a connection was opened with."""
    assert isinstance(peer.socket, ssl.SSLSocket)
    found = peer.socket.getpeercert(binary_form=True)
    assert found
    return found


def test_gateway_speaks_https(gateway: GatewayProcess, authority: Authority) -> None:
    """TLS 1.3 where the client can."""
    assert gateway.url.startswith("https://127.0.0.1:")
    peer = gateway.peer(tls=authority.client())
    assert peer.ask("GET", "/readyz").status == 200
    assert isinstance(peer.socket, ssl.SSLSocket)
    assert peer.socket.version() == "TLSv1.3"


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["by itself", "at SIGHUP"])
def test_renewed_certificate_is_used_without_a_restart(
    gateway: GatewayProcess, authority: Authority, how: str
) -> None:
    """By new connections; those that are open stay as they are."""
    old = gateway.peer(tls=authority.client())
    authority.issue()
    if how == "at SIGHUP":
        gateway.process.send_signal(signal.SIGHUP)

    def is_new() -> bool:
        with Peer(gateway.port, tls=authority.client()) as peer:
            return served(peer) != served(old)

    wait_until(is_new)
    assert old.ask("GET", "/healthz").status == 200


@pytest.mark.thorough
def test_broken_certificate_is_not_taken(gateway: GatewayProcess, authority: Authority) -> None:
    """The old one goes on to serve, and the log says so."""
    before = served(gateway.peer(tls=authority.client()))
    authority.chain.write_text("not a certificate")
    gateway.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "stays as it was" in gateway.errors())
    assert served(gateway.peer(tls=authority.client())) == before


def test_files_in_the_wrong_order_are_refused_with_a_reason(authority: Authority) -> None:
    """Also where OpenSSL has none but that a file holds nothing of the kind."""
    for chain, key in (
        (authority.key, authority.chain),
        (authority.chain, authority.chain),
        (Path(__file__), Path(__file__)),
    ):
        with pytest.raises(UsageError) as refused:
            ServerCertificate(chain, key).context()
        assert str(refused.value).startswith(f"{chain} and {key} are not a certificate and its key")
        assert "None" not in str(refused.value)


def test_file_of_a_certificate_that_is_missing_is_named(
    authority: Authority, tmp_path: Path
) -> None:
    """It alone: the other one is there."""
    missing = tmp_path / "missing.pem"
    for files in ((authority.chain, missing), (missing, authority.key)):
        with pytest.raises(NotFound) as refused:
            ServerCertificate(*files).context()
        assert str(refused.value) == f"{missing}: No such file or directory"


def test_outdated_tls_is_refused(gateway: GatewayProcess, authority: Authority) -> None:
    """1.1 and older; the gateway is none the worse for it."""
    context = authority.client()
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(OSError, match=r"(?i)version|alert|reset|eof"):
        gateway.peer(tls=context)
    assert gateway.peer(tls=authority.client()).ask("GET", "/healthz").status == 200


@pytest.mark.thorough
def test_plain_http_to_a_tls_port_is_no_harm(gateway: GatewayProcess, authority: Authority) -> None:
    """The connection ends."""
    peer = gateway.peer()
    peer.send(b"GET /healthz HTTP/1.1\r\n\r\n")
    assert peer.is_closed()
    assert gateway.peer(tls=authority.client()).ask("GET", "/healthz").status == 200
