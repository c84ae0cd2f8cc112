"""Servers of a queue for display: its gateways and its database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from taskq.db.access import Queries
from taskq.model.words import counted, duration, rate
from taskq_agent.units import in_bytes

#: Seconds without a sign after which a gateway counts as silent; it gives one every ten.
SILENT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class GatewayLoad:
    """A gateway. sessions: those heard there lately; per_s: exchanges a second.

    front: whether it serves claims from the front; None if it has none. silent_s: seconds since its
    last sign, which it gives every ten. certificate_ends: None if it has no certificate of its own.
    """

    name: str
    release: str
    sessions: int
    per_s: float
    front: bool | None
    silent_s: float
    certificate_ends: datetime | None = None

    @property
    def is_there(self) -> bool:
        """Whether it gave a sign lately."""
        return self.silent_s < SILENT_S

    @property
    def state(self) -> str:
        """How long it is silent, or the state of its front, in a few words."""
        if not self.is_there:
            return f"silent for {duration(self.silent_s)}"
        return "" if self.front is None else "front in use" if self.front else "front avoided"


@dataclass(frozen=True, slots=True)
class ServerLoad:
    """The database's server, primary or standby. size: of the database, in bytes.

    oldest_s: age of the oldest held snapshot in seconds; None if there is none or the login may not
    see it. lag_s: seconds that the slowest standby is behind; None as for oldest_s.
    """

    standby: bool
    version: str
    size: int
    connections: int
    most_connections: int
    oldest_s: float | None
    standbys: int
    lag_s: float | None

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield the shown figures, each with a title."""
        yield "database", f"{'standby, ' if self.standby else ''}PostgreSQL {self.version}"
        yield "size", in_bytes(self.size)
        yield "connections", f"{self.connections:,} of {self.most_connections:,}"
        if self.oldest_s is not None:
            yield "oldest snapshot", duration(self.oldest_s)
        if self.standbys:
            lag = "" if self.lag_s is None else f", {duration(self.lag_s)} behind at most"
            yield "standbys", f"{self.standbys:,}{lag}"


@dataclass(frozen=True, slots=True)
class Servers:
    """The gateways of a queue, by name, and its database; None if the caller may not see it."""

    gateways: Sequence[GatewayLoad]
    database: ServerLoad | None

    def line(self) -> str:
        """Return the servers in one line, for views of other things."""
        there = [gateway for gateway in self.gateways if gateway.is_there]
        parts = [counted(len(there), "gateway")] if self.gateways else []
        if there:
            parts.append(f"{rate(sum(gateway.per_s for gateway in there))} exchanges")
        if silent := len(self.gateways) - len(there):
            parts.append(f"{silent:,} SILENT")
        if any(gateway.front is False for gateway in there):
            parts.append("FRONT AVOIDED")
        if (found := self.database) is not None:
            parts.append(in_bytes(found.size))
            parts.append(f"{found.connections:,}/{found.most_connections:,} connections")
            parts += [f"snapshot {duration(found.oldest_s)}"] if found.oldest_s is not None else []
            parts += [f"standby {duration(found.lag_s)} behind"] if found.lag_s is not None else []
        return "  ".join(parts)


def read_servers(queries: Queries) -> Servers:
    """Return the servers as they are now; none for a token that is not for all campaigns."""
    gateways = [GatewayLoad(**row) for row in queries.rows("gateways")]
    found = queries.row("server_load")
    return Servers(gateways, None if found is None else ServerLoad(**found))
