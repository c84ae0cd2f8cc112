"""Settings of a gateway, with their default values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from taskq.front.address import FrontAddress

#: Connections for exchanges; a fourth one made a gateway slower on two cores.
CONNECTIONS: Final = 3


@dataclass(frozen=True, slots=True)
class Settings:
    """How a gateway serves.

    lease_s: silence after which an agent's tasks are handed out again. gateways: the addresses of
    all gateways, told to agents. connections: connections for exchanges. most_clients: connections
    beyond which nobody is let in, so that files can still be opened. front: where tasks that were
    leased ahead are; None: there is no front.
    """

    lease_s: float = 120.0
    gateways: tuple[str, ...] = ()
    connections: int = CONNECTIONS
    most_clients: int = 1_000_000
    front: FrontAddress | None = None
