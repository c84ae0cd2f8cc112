"""List of the gateways that an agent may use, and the choice of the next one."""

from __future__ import annotations

import ipaddress
import logging
import random
import threading
import time
from dataclasses import dataclass
from typing import Callable, Dict, List, Sequence, Set
from urllib.parse import urlsplit

from taskq_agent.backoff import Backoff

log = logging.getLogger(__name__)

_MAX_GATEWAYS = 64
_MAX_URL_CHARS = 2_000
_SHORTEST_AVOIDED_S = 20.0
_LONGEST_AVOIDED_S = 600.0
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class GatewayAddress:
    """Address of a gateway. prefix: the common start of its paths, without a final slash."""

    scheme: str
    host: str
    port: int
    prefix: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"


def is_loopback(host: str) -> bool:
    """Return whether a name or address is that of the machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def parsed(url: str, *, insecure: bool = False) -> GatewayAddress:
    """Return the address in a URL; ValueError says what is wrong with it.

    insecure: allow `http` to other hosts too, where anybody on the path can read the token.
    """
    if len(url) > _MAX_URL_CHARS or not (url.isascii() and url.isprintable()) or " " in url:
        raise ValueError(f"{url[:100]!r} is not a URL")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{url}: {error}") from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(
            f"{url}: a gateway's address is https://HOST[:PORT][/PATH], such as https://gw.example.org"
        )
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError(f"{url}: a gateway's address has no user, query or fragment")
    port = _PORTS[parts.scheme] if port is None else port
    address = GatewayAddress(parts.scheme, parts.hostname, port, parts.path.rstrip("/"))
    if address.scheme == "http" and not (insecure or is_loopback(address.host)):
        raise ValueError(
            f"{url}: the token would go over the network in the clear; use https (agents alone may "
            "say --insecure-http, in a network that you trust)"
        )
    return address


class GatewayList:
    """Chooses among gateways. Thread-safe.

    Each agent draws its own order once. So agents spread evenly, and each returns to its preferred
    gateway when that is up again. A gateway that fails is avoided for a while: at random between
    20 s and a ceiling that doubles up to 600 s.

    urls: the configured gateways. ValueError for one that `parsed` does not accept.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        insecure: bool = False,
        uniform: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        given = [parsed(url, insecure=insecure) for url in urls]
        if not given:
            raise ValueError("no gateway is given")
        self._given = tuple(dict.fromkeys(given))
        self._insecure = insecure
        self._uniform = uniform
        self._clock = clock
        self._lock = threading.Lock()
        self._ranks: Dict[GatewayAddress, float] = {}
        self._backoffs: Dict[GatewayAddress, Backoff] = {}
        self._avoided: Dict[GatewayAddress, float] = {}
        self._have_served: Set[GatewayAddress] = set()
        self._order: List[GatewayAddress] = []
        self._set_order(self._given)

    def all(self) -> List[GatewayAddress]:
        """Return all gateways, in the order of preference."""
        with self._lock:
            return list(self._order)

    def first(self) -> GatewayAddress:
        """Return the gateway to use now: the first not avoided, or the one avoided least long."""
        with self._lock:
            now = self._clock()
            return min(
                self._order, key=lambda gateway: max(0.0, self._avoided.get(gateway, now) - now)
            )

    def avoid(self, address: GatewayAddress) -> None:
        """Prefer other gateways for a while."""
        with self._lock:
            backoff = self._backoffs.setdefault(
                address, Backoff(_SHORTEST_AVOIDED_S, _LONGEST_AVOIDED_S, self._uniform)
            )
            self._avoided[address] = self._clock() + backoff.draw()

    def served(self, address: GatewayAddress) -> None:
        """Note that a gateway has answered: its backoff starts again from the shortest time."""
        with self._lock:
            self._backoffs.pop(address, None)
            self._have_served.add(address)

    def has_served(self, address: GatewayAddress) -> bool:
        """Return whether a gateway has ever answered at this address."""
        with self._lock:
            return address in self._have_served

    def learn(self, urls: Sequence[str]) -> None:
        """Adopt the addresses that a gateway has sent; an empty list changes nothing.

        Addresses whose scheme differs from the configured ones are ignored: no agent moves from
        https to http. The configured gateways stay, as the last resort.
        """
        if not urls:
            return
        scheme = "https" if any(gateway.scheme == "https" for gateway in self._given) else "http"
        learned = []
        for url in urls[:_MAX_GATEWAYS]:
            try:
                address = parsed(url, insecure=self._insecure)
            except ValueError as error:
                log.debug("the address of a gateway is ignored: %s", error)
                continue
            if address.scheme == scheme:
                learned.append(address)
        if learned:
            with self._lock:
                self._set_order(learned)

    def _set_order(self, preferred: Sequence[GatewayAddress]) -> None:
        known = list(dict.fromkeys([*preferred, *self._given]))
        for gateway in known:
            self._ranks.setdefault(gateway, self._uniform())
        for forgotten in self._ranks.keys() - set(known):
            for table in (self._ranks, self._backoffs, self._avoided):
                table.pop(forgotten, None)
            self._have_served.discard(forgotten)
        self._order = sorted(
            known, key=lambda gateway: (gateway not in preferred, self._ranks[gateway])
        )
