"""Settings of a gateway, with their default values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from taskq.front.address import FrontAddress

#: Connections for exchanges; a fourth one made a gateway slower on two cores.
CONNECTIONS: Final = 3


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a gateway.

    lease_s: seconds of silence after which an agent's tasks are handed out again. gateways: the
    addresses of all gateways, for agents to choose from. connections: connections to the database
    for exchanges. most_clients: most connections of clients, so that file descriptors are left.
    front: the Redis server of the front; None if there is no front.
    """

    lease_s: float = 120.0
    gateways: tuple[str, ...] = ()
    connections: int = CONNECTIONS
    most_clients: int = 1_000_000
    front: FrontAddress | None = None
