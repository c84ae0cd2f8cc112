"""Addresses of clients, also behind proxies that are trusted to name them."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

_FORWARDED = b"x-forwarded-for"


class Proxies:
    """Proxies that are trusted to name a request's client in `X-Forwarded-For`."""

    def __init__(self, addresses: Sequence[str] = ()) -> None:
        """addresses: of proxies or networks of them; raise `ValueError` if one is neither."""
        self._networks = [ip_network(address) for address in addresses]

    def client(self, peer: str, headers: Sequence[tuple[bytes, bytes]]) -> str:
        """Return the address of a client that a connection's peer is, or speaks for.

        Each proxy adds the address that it sees at the end. So the last address that is not a
        trusted proxy's is the client's; what stands before it is what the client says.
        """
        if not self._trusts(peer):
            return peer
        values = [value.decode("latin-1") for name, value in headers if name == _FORWARDED]
        named = [_host(name.strip()) for name in ",".join(values).split(",")]
        named = [name for name in named if name]
        for name in reversed(named):
            if not self._trusts(name):
                return name
        return named[0] if named else peer

    def _trusts(self, text: str) -> bool:
        if not self._networks:
            return False
        try:
            address = parsed_address(text)
        except ValueError:
            return False
        return any(address in network for network in self._networks)


def parsed_address(text: str) -> IPv4Address | IPv6Address:
    """Return an IP address; raise `ValueError` if a text is none.

    Without the zone of a link-local address, which means nothing elsewhere; and an IPv4 address
    that a socket for both families gives within one of IPv6 as what it is.
    """
    address = ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def _host(text: str) -> str:
    """Return an address without the port that some proxies add."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text
