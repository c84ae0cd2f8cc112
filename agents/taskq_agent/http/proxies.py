"""Proxies of the environment, and the places that `no_proxy` keeps away from them."""

from __future__ import annotations

import base64
import ipaddress
import os
import re
from dataclasses import dataclass, field
from typing import Mapping, Optional, Tuple
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from taskq_agent.http.gateways import GatewayAddress, is_loopback

_UNUSABLE = "the proxy of the environment cannot be used"
#: A place of `no_proxy`: a scheme that nobody needs, a name or address, and a port.
_PLACE = re.compile(
    r"(?:[a-z]+://)?(?P<host>\[[^]]*\]|[^:/]+)(?P<bits>/\d+)?(?::(?P<port>\d{1,5}))?/?"
)


@dataclass(frozen=True)
class Proxy:
    """A proxy. headers: what it needs in each request, which is secret."""

    host: str
    port: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"the proxy {self.host}:{self.port} of the environment"


def proxy_for(address: GatewayAddress) -> Optional[Proxy]:
    """Return the proxy that a gateway is reached through; None if it is reached directly.

    Loopback never is: it would be the loopback of the proxy's host. OSError if the environment
    names no proxy that can be used.
    """
    proxies = getproxies()
    url = (proxies.get(address.scheme) or proxies.get("all") or "").strip()
    if not url or is_loopback(address.host) or is_excluded(address):
        return None
    variable = f"{address.scheme}_proxy" if proxies.get(address.scheme) else "all_proxy"
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname or "", parts.port or 80
    except ValueError as error:
        raise OSError(f"{_UNUSABLE} ({variable}): {error}") from None
    if parts.scheme != "http" or not re.fullmatch(r"[\w.:-]+", host):
        raise OSError(f"{_UNUSABLE} ({variable}): it must read http://HOST:PORT")
    if parts.username is None:
        return Proxy(host, port)
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    headers = {"Proxy-Authorization": "Basic " + base64.b64encode(pair).decode()}
    return Proxy(host, port, headers)


def is_excluded(address: GatewayAddress) -> bool:
    """Return whether `no_proxy` names a gateway, in any of the forms that programs take.

    These are names, also of domains (`example.org`, `.example.org`, `*.example.org`), addresses,
    networks (`10.0.0.0/8`, `10.1.`, `10.1.*`), each with or without a port; and `*`.
    """
    listed = os.environ.get("no_proxy", os.environ.get("NO_PROXY", "")).lower()
    if any(_names(place, address) for place in re.split(r"[\s,;|]+", listed) if place):
        return True
    return bool(proxy_bypass(f"{address.host}:{address.port}"))


def _names(place: str, address: GatewayAddress) -> bool:
    if place == "*":
        return True
    host, bits, port = _parts(place)
    if port is not None and int(port) != address.port:
        return False
    try:
        there = ipaddress.ip_address(address.host)
    except ValueError:
        domain, name = host.lstrip("*.").rstrip("."), address.host.lower().rstrip(".")
        return bool(domain) and (name == domain or name.endswith(f".{domain}"))
    if re.fullmatch(r"(\d+\.){1,3}\*?", host):
        return str(there).startswith(host.rstrip("*"))
    try:
        return there in ipaddress.ip_network(host + (bits or ""), strict=False)
    except ValueError:
        return False


def _parts(place: str) -> Tuple[str, Optional[str], Optional[str]]:
    """Return the name or address, the bits of a network, and the port that a place names."""
    bare = place.count(":") > 1 and "[" not in place and "://" not in place  # IPv6
    found = None if bare else _PLACE.fullmatch(place)
    if found is None:
        host, slash, bits = place.partition("/")
        return host, slash + bits or None, None
    return found["host"].strip("[]"), found["bits"], found["port"]
