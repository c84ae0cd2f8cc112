"""Bans of hosts and sites: agents there leave, and new ones are refused, until the ban ends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from taskq.db.connections import Database
from taskq.errors import UsageError

PlaceKind: TypeAlias = Literal["host", "site"]

MAX_WHY_CHARS: Final = 500


@dataclass(frozen=True, slots=True)
class Ban:
    """A ban of a host or site. login: who made it. until: None: until it is lifted."""

    kind: PlaceKind
    name: str
    why: str
    login: str
    banned_at: datetime
    until: datetime | None


def ban(
    database: Database,
    kind: PlaceKind,
    name: str,
    why: str,
    until: datetime | timedelta | None,
) -> int:
    """Ban a host or site; see `Fleet.ban`."""
    lifetime_s = None
    if isinstance(until, timedelta):
        lifetime_s = until.total_seconds()
    elif until is not None:
        if until.tzinfo is None:
            raise UsageError("the end of a ban needs a time zone, as datetime.now(timezone.utc)")
        lifetime_s = (until - datetime.now(until.tzinfo)).total_seconds()
    if lifetime_s is not None and lifetime_s < 1:
        raise UsageError("the end of a ban must be in the future")
    return int(database.value("ban", kind=kind, place=name, why=why.strip(), lifetime_s=lifetime_s))


def unban(database: Database, kind: PlaceKind, name: str) -> bool:
    """Lift the ban of a host or site; see `Fleet.unban`."""
    return bool(database.value("unban", kind=kind, place=name))


def bans(database: Database) -> list[Ban]:
    """Return the bans that have not ended, latest first."""
    return [Ban(**row) for row in database.rows("bans")]
