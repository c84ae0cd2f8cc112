"""Hosts and sites of a queue: `Client.fleet`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from taskq.db.access import Queries
from taskq.errors import UsageError
from taskq.fleet.bans import Ban, PlaceKind
from taskq.fleet.blame import FailureVerdict, TaskFates, blame
from taskq.fleet.places import Place, Presence, compare_places
from taskq.fleet.sample import MOST, read_sample
from taskq.spec.model import check_path

MAX_HOSTS: Final = 50_000


class Fleet:
    """Hosts and sites with their agents. Every call reads the database; no caching."""

    def __init__(self, database: Queries) -> None:
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
        lifetime_s = None
        if isinstance(until, timedelta):
            lifetime_s = until.total_seconds()
        elif until is not None:
            if until.tzinfo is None:
                raise UsageError(
                    "the end of a ban needs a time zone, as datetime.now(timezone.utc)"
                )
            lifetime_s = (until - datetime.now(until.tzinfo)).total_seconds()
        if lifetime_s is not None and lifetime_s < 1:
            raise UsageError("the end of a ban must be in the future")
        values = {"place": name, "why": why.strip(), "lifetime_s": lifetime_s}
        return int(self._database.value("ban", kind=kind, **values))

    def unban(self, kind: PlaceKind, name: str) -> bool:
        """Lift a ban; return whether there was one. Agents that were told to leave do so."""
        return bool(self._database.value("unban", kind=kind, place=name))

    def bans(self) -> list[Ban]:
        """Return the bans that have not ended, latest first."""
        return [Ban(**row) for row in self._database.rows("bans")]

    def hosts(self, path: str = "/") -> list[Place]:
        """Compare the hosts whose agents serve a campaign, above or below it.

        Attempts are those of a sample of the latest at and below the path, at most 10,000, however
        many there are. What is clearly worse than elsewhere comes first, then what is banned, then
        most slots. Raise `NotFound` if there is no such campaign.
        """
        return self._compared("host", path)

    def sites(self, path: str = "/") -> list[Place]:
        """Compare the sites whose agents serve a campaign, as `hosts` does."""
        return self._compared("site", path)

    def failures(self, path: str = "/", *, limit: int = 20) -> list[FailureVerdict]:
        """Judge, by campaign and class, whose fault failures at and below a path are.

        Takes the same sample as `hosts`; most attempts first, `limit` classes at most. Raise
        `NotFound` if there is no such campaign.
        """
        sample = read_sample(self._database, check_path(path))
        rows = self._database.rows("failing_tasks", path=path, most=MOST)
        return blame(sample, [TaskFates(**row) for row in rows], limit)

    def _compared(self, kind: PlaceKind, path: str) -> list[Place]:
        sample = read_sample(self._database, check_path(path))
        rows = self._database.rows("places", path=path, limit=MAX_HOSTS)
        return compare_places(kind, [Presence(**row) for row in rows], sample, self.bans())
