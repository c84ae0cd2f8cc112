"""Hosts and sites of a queue: `Client.fleet`."""

from __future__ import annotations

from datetime import datetime, timedelta

from taskq.db.connections import Database
from taskq.fleet import bans
from taskq.fleet.bans import Ban, PlaceKind


class Fleet:
    """Hosts and sites with their agents. Every call reads the database; no caching."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def ban(
        self,
        kind: PlaceKind,
        name: str,
        *,
        why: str,
        until: datetime | timedelta | None = None,
    ) -> int:
        """Ban a host or site; return how many agents there were not draining before.

        They get the order to drain, with the reason, with the answer to their next heartbeat: they
        claim no more, finish the tasks they hold, and leave. An agent that starts there is refused
        with the reason until the ban ends. A ban that is there is replaced.

        name: as agents name it; an agent may name another one, so to keep out somebody who must not
        come, revoke the token. until: an aware instant, or a duration; None: until it is lifted.
        """
        return bans.ban(self._database, kind, name, why, until)

    def unban(self, kind: PlaceKind, name: str) -> bool:
        """Lift a ban; return whether there was one. Agents that were told to leave do so."""
        return bans.unban(self._database, kind, name)

    def bans(self) -> list[Ban]:
        """Return the bans that have not ended, latest first."""
        return bans.bans(self._database)
