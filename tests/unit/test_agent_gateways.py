from __future__ import annotations

import itertools

import pytest

from taskq_agent.http.gateways import GatewayAddress, GatewayList, parsed

THREE = ("https://a", "https://b", "https://c:8443/queue/")


class Clock:
    """Stands still unless moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def gateways_of(*urls: str, clock: Clock | None = None) -> GatewayList:
    """Return gateways that this agent likes in the order in which they are given."""
    places = itertools.count(1)
    return GatewayList(urls, uniform=lambda: next(places) / 100, clock=clock or Clock())


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://a", GatewayAddress("https", "a", 443)),
        ("https://a:8443/queue/", GatewayAddress("https", "a", 8443, "/queue")),
        ("https://[::1]:1", GatewayAddress("https", "::1", 1)),
        ("http://localhost:80", GatewayAddress("http", "localhost", 80)),
        ("http://127.0.0.8:80", GatewayAddress("http", "127.0.0.8", 80)),
    ],
)
def test_addresses_are_understood(url: str, address: GatewayAddress) -> None:
    assert parsed(url) == address
    assert parsed(str(address)) == address


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://gateway.example", "in the clear.*--insecure-http"),
        ("http://10.0.0.1", "in the clear"),
        ("ftp://a", "https://HOST"),
        ("gateway.example:443", "https://HOST"),
        ("https://", "https://HOST"),
        ("https://me:secret@a", "no user"),
        ("https://a/?token=b", "no user"),
        ("https://a:99999", "[Pp]ort"),
        ("https://a\r\nHost: b", "not a URL"),
        ("https://a b", "not a URL"),
        ("https://" + "a" * 3_000, "not a URL"),
    ],
)
def test_bad_addresses_are_refused(url: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parsed(url)


def test_http_is_allowed_where_somebody_says_so() -> None:
    assert parsed("http://10.0.0.1", insecure=True).scheme == "http"


def test_failing_gateway_is_avoided_for_a_while() -> None:
    """The next serves meanwhile; then the agent comes back to the one it likes best."""
    clock = Clock()
    gateways = gateways_of(*THREE, clock=clock)
    assert gateways.first().host == "a"
    gateways.avoid(gateways.first())
    assert gateways.first().host == "b"
    gateways.avoid(gateways.first())
    assert gateways.first().host == "c"
    clock.now = 60
    assert gateways.first().host == "a"


def test_gateway_that_stays_away_is_avoided_for_longer() -> None:
    """A dead gateway is tried less and less; one failure after an answer is a first one."""
    clock = Clock()
    gateways = GatewayList(["https://a"], uniform=lambda: 1.0, clock=clock)
    other = "https://b"
    gateways.learn(["https://a", other])
    (dead,) = [address for address in gateways.all() if address.host == "a"]

    def avoided_s() -> float:
        gateways.avoid(dead)
        begun = clock.now
        while gateways.first() != dead:
            clock.now += 1
        return clock.now - begun

    assert [avoided_s() for _ in range(6)] == pytest.approx([40, 80, 160, 320, 600, 600], abs=1)
    gateways.served(dead)
    assert avoided_s() == pytest.approx(40, abs=1)


def test_when_all_have_failed_the_first_to_be_back_is_asked() -> None:
    gateways = gateways_of(*THREE)
    for _ in range(3):
        gateways.avoid(gateways.first())
    assert gateways.first().host == "a"


def test_agents_have_orders_of_their_own() -> None:
    """A crowd of agents with one list spreads over all gateways."""
    assert {GatewayList(THREE).first().host for _ in range(100)} == {"a", "b", "c"}


def test_gateways_from_the_answers_come_before_the_given_ones() -> None:
    """The given addresses stay, in case that the new ones cannot be reached from here."""
    gateways = gateways_of("https://a")
    gateways.learn(["https://x", "https://y"])
    assert [address.host for address in gateways.all()] == ["x", "y", "a"]
    gateways.learn([])
    assert [address.host for address in gateways.all()] == ["x", "y", "a"]
    gateways.learn(["https://y"])
    assert [address.host for address in gateways.all()] == ["y", "a"]


def test_order_of_gateways_stays_when_the_same_ones_come_again() -> None:
    """An agent does not move with each answer."""
    gateways = GatewayList(["https://a"])
    addresses = [f"https://{name}" for name in "uvwxyz"]
    gateways.learn(addresses)
    before = gateways.all()
    gateways.learn(addresses[::-1])
    assert gateways.all() == before


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:1", "http://evil", "nonsense", "https://b:x"]
)
def test_nobody_is_led_from_https_to_http(address: str) -> None:
    gateways = gateways_of("https://a")
    gateways.learn([address])
    assert [address.host for address in gateways.all()] == ["a"]
    gateways.learn([address, "https://b"])
    assert [address.host for address in gateways.all()] == ["b", "a"]


def test_no_more_gateways_are_taken_up_than_an_agent_can_use() -> None:
    gateways = gateways_of("https://a")
    gateways.learn([f"https://{number}.example" for number in range(10_000)])
    assert len(gateways.all()) == 65
