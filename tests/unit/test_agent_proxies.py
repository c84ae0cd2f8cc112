"""Which gateways an agent and a submitter reach through a proxy of the environment."""

from __future__ import annotations

import os
import socket

import pytest

from taskq_agent.errors import TransportFailed
from taskq_agent.http.connections import Dialer
from taskq_agent.http.gateways import GatewayAddress, GatewayList
from taskq_agent.http.proxies import Proxy, is_excluded, proxy_for
from taskq_agent.http.transport import HttpTransport
from taskq_agent.protocol import Hello

NAMED = GatewayAddress("https", "gw.example.org", 443)
NUMBERED = GatewayAddress("https", "10.1.2.3", 443)
IN_SIX = GatewayAddress("https", "2001:db8::5", 443)


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("place", "address"),
    [
        *(
            (place, NAMED)
            for place in (
                "*",
                "example.org",
                ".example.org",
                "*.example.org",
                "EXAMPLE.ORG.",
                "gw.example.org:443",
                "https://gw.example.org/",
                "localhost;gw.example.org",
                "localhost example.org",
                "localhost , gw.example.org ,",
            )
        ),
        *(
            (place, NUMBERED)
            for place in (
                "10.1.2.3",
                "10.1.2.3:443",
                "10.0.0.0/8",
                "10.1.2.3/32",
                "10.1.2.9/24,x",
                "10.",
                "10.1.*",
            )
        ),
        *(
            (place, IN_SIX)
            for place in (
                "2001:db8::5",
                "[2001:db8::5]",
                "[2001:db8::5]:443",
                "2001:DB8:0::5",
                "2001:db8::/32",
                "[2001:db8::]/32",
            )
        ),
    ],
)
def test_no_proxy_in_any_usual_form_keeps_a_place_from_the_proxy(
    monkeypatch: pytest.MonkeyPatch, place: str, address: GatewayAddress
) -> None:
    """Networks are what clusters set, and the standard library knows none."""
    for name in ("no_proxy", "NO_PROXY"):
        with monkeypatch.context() as patch:
            patch.setenv("https_proxy", "http://proxy:3128")
            assert proxy_for(address) == Proxy("proxy", 3128)
            patch.setenv(name, place)
            assert proxy_for(address) is None


@pytest.mark.parametrize(
    ("place", "address"),
    [
        ("", NAMED),
        ("ample.org", NAMED),
        ("gw.example.org:80", NAMED),
        ("10.0.0.0/8", NAMED),
        ("10.1.2.3:80", NUMBERED),
        ("10.1.2.30", NUMBERED),
        ("0.1.2.3", NUMBERED),
        ("10.1.2.0/99", NUMBERED),
        ("1", NUMBERED),
        ("10.2.*", NUMBERED),
        ("2001:db9::/32", IN_SIX),
        ("<local>,::,[,]:,/8,*.,.", IN_SIX),
        ("<local>,::,[,]:,/8,*.,.", NAMED),
    ],
)
def test_other_places_go_through_the_proxy(
    monkeypatch: pytest.MonkeyPatch, place: str, address: GatewayAddress
) -> None:
    monkeypatch.setenv("no_proxy", place)
    assert not is_excluded(address)


@pytest.mark.parametrize(
    "value",
    ["//proxy:1", "http://proxy:99999", "http://[::1", '"http://proxy:1"', "socks5h://proxy:1"],
)
def test_unusable_proxy_is_an_error_that_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    for name in ("https_proxy", "ALL_PROXY"):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            with pytest.raises(OSError, match=rf"cannot be used \({name.lower()}\): "):
                proxy_for(NAMED)


@pytest.mark.parametrize("value", ["", "  "])
def test_empty_proxy_is_none(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("https_proxy", value)
    assert proxy_for(NAMED) is None


def test_password_of_a_proxy_is_in_no_text() -> None:
    proxy = Proxy("proxy", 1, {"Proxy-Authorization": "Basic c2VjcmV0"})
    assert "c2VjcmV0" not in f"{proxy} {proxy!r}"


def test_proxy_that_is_away_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the gateway alone, which nobody has asked."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        monkeypatch.setenv("https_proxy", f"http://me:secret@127.0.0.1:{port}")
        transport = HttpTransport(GatewayList(["https://gw.example.org"]), "token", Dialer())
        hello = Hello("key", "/test", "agent", "host", 1, "site", 1, "0")
        with pytest.raises(TransportFailed, match=rf"proxy 127\.0\.0\.1:{port}") as failed:
            transport.open(hello)
    assert "secret" not in str(failed.value)
