"""TLS by the gateway itself: new enough, and with a certificate that may change under way."""

from __future__ import annotations

import re
import signal
import ssl
import warnings
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
import trustme

from taskq.gateway.http.certificates import SOON_S, ServerCertificate
from taskq.model.errors import NotFound, UsageError
from tests.fixtures.gateways import GatewayProcess, StartGateway, opened
from tests.helpers.waiting import wait_until
from tests.integration.gateway.peers import Peer


class Authority:
    """Issues certificates for a gateway into two files."""

    def __init__(self, folder: Path) -> None:
        self._ca = trustme.CA()
        self.chain, self.key = folder / "chain.pem", folder / "key.pem"
        self.words = ("--tls-cert", self.chain, "--tls-key", self.key)
        self.issue()

    def issue(self, *, begins: datetime | None = None, ends: datetime | None = None) -> None:
        """Put a new certificate in the place of the old one, as renewal tools do."""
        certificate = self._ca.issue_cert("127.0.0.1", not_before=begins, not_after=ends)
        for path, pem in (
            (self.key, certificate.private_key_pem.bytes()),
            (self.chain, b"".join(blob.bytes() for blob in certificate.cert_chain_pems)),
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


def test_gateway_serves_https(gateway: GatewayProcess, authority: Authority) -> None:
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


@pytest.mark.thorough
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


def from_now(days: float) -> datetime:
    """Return a time in whole seconds, as certificates have it."""
    return datetime.now(timezone.utc).replace(microsecond=0) + timedelta(days=days)


#: When a certificate begins and ends, in days from now, and what the log says of it.
FAULTS = {
    "expired": (
        -9,
        -1,
        r"has expired at \d{4}-\d\d-\d\d \d\d:\d\d UTC; clients refuse it: renew it",
    ),
    "to come": (1, 99, r"is not valid before .* UTC; clients refuse it: check the clock"),
    "soon over": (-9, SOON_S / 86_400 - 1, r"expires at .* UTC: renew it"),
}


@pytest.mark.thorough
@pytest.mark.parametrize(("begins", "ends", "said"), FAULTS.values(), ids=FAULTS.keys())
def test_certificate_that_is_not_valid_now_or_soon_is_warned_of(
    start_gateway: StartGateway, authority: Authority, begins: float, ends: float, said: str
) -> None:
    """At the start, once, with the file, the time and what to do."""
    authority.issue(begins=from_now(begins), ends=from_now(ends))
    pattern = f"the certificate {re.escape(str(authority.chain))} {said}"
    gateway = start_gateway(*authority.words, expected=[pattern])
    assert len(re.findall(pattern, gateway.errors())) == 1


def test_valid_certificate_is_warned_of_by_nobody(authority: Authority) -> None:
    """And read as it is: also in a year after 2049, which is written in another way."""
    for ends in (from_now(99), datetime(2061, 2, 3, 4, 5, 6, tzinfo=timezone.utc)):
        authority.issue(begins=from_now(-1), ends=ends)
        validity = ServerCertificate(authority.chain, authority.key).validity()
        assert validity is not None
        assert (validity.ends, validity.fault()) == (ends.timestamp(), None)
    authority.chain.write_text("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n")
    assert ServerCertificate(authority.chain, authority.key).validity() is None


@pytest.mark.thorough
def test_valid_certificate_is_not_replaced_by_one_that_is_not(
    start_gateway: StartGateway, authority: Authority
) -> None:
    """The log says why; when a valid one comes, it is taken, and the metric has its end."""
    gateway = start_gateway(*authority.words, expected=["the certificate stays as it was"])
    before = served(gateway.peer(tls=authority.client()))
    authority.issue(begins=from_now(-9), ends=from_now(-1))
    wait_until(lambda: f"{authority.chain}, has expired at" in gateway.errors())
    assert served(gateway.peer(tls=authority.client())) == before
    authority.issue(begins=from_now(-9), ends=from_now(99))

    def is_new() -> bool:
        with Peer(gateway.port, tls=authority.client()) as peer:
            return served(peer) != before

    wait_until(is_new)


@pytest.mark.thorough
def test_metrics_say_when_the_certificate_expires(
    start_gateway: StartGateway, authority: Authority, dsn: str
) -> None:
    """So that an alert comes in time, also after a renewal."""
    ends = from_now(99)
    authority.issue(ends=ends)
    gateway = start_gateway(*authority.words)
    with opened(dsn) as queue:
        queue.create_campaign("/a")
        token = queue.tokens.create("manager", "prometheus", ["/a"])[0]

    def shown() -> float:
        reply = gateway.peer(tls=authority.client()).ask("GET", "/metrics", token=token)
        found = re.search(
            rb"^taskq_gateway_certificate_expiry_seconds (\S+)$", reply.body, re.MULTILINE
        )
        assert found, reply.body
        return float(found[1])

    assert shown() == ends.timestamp()
    authority.issue(ends=ends + timedelta(days=1))
    wait_until(lambda: shown() == ends.timestamp() + 86_400)
