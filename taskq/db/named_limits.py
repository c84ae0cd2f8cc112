"""Limits of the queue that campaigns share: `Client.limits`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taskq.db.access import Queries


@dataclass(frozen=True, slots=True)
class Holder:
    """A campaign whose tasks count towards a limit. tasks: those that agents hold."""

    path: str
    tasks: int


@dataclass(frozen=True, slots=True)
class NamedLimit:
    """A limit that campaigns share.

    most: how many starts may run at a time. used: how many run: an agent counts for the tasks that
    it holds, and for no more than its slots. owners: whose campaigns may name it; None means all.
    is_full: whether no more tasks are handed out in its campaigns, since as many run as may,
    wherever. campaigns: how many name it. holders: the first five of those whose tasks count. A
    manager's token sees only its campaigns, and not the owners.
    """

    name: str
    most: int
    owners: list[str] | None
    used: int
    is_full: bool
    campaigns: int
    holders: list[Holder]


def read_limits(database: Queries, within: Sequence[str]) -> list[NamedLimit]:
    """Return the limits that campaigns at and below some paths name, by name; all for /."""
    return [
        NamedLimit(**{**row, "holders": [Holder(**held) for held in row["holders"]]})
        for row in database.rows("limits", within=[*within])
    ]


class NamedLimits:
    """Limits that campaigns share. Every call reads the database; no caching.

    Only an operator may change them, and not over a gateway.
    """

    def __init__(self, database: Queries) -> None:
        self._database = database

    def list(self) -> list[NamedLimit]:
        """Return the limits, by name: all, or over a gateway those of the token's campaigns."""
        return read_limits(self._database, ["/"])

    def set(self, name: str, most: int, *, owners: Sequence[str] | None = None) -> int:
        """Set how many starts of all campaigns that name a limit may run at a time.

        owners: whose campaigns may name it from now on; None: all. Return how many campaigns name
        it. It holds for later claims, and takes nothing back. Raise `UsageError` for an invalid
        value, `Conflict` beyond 1,000 limits.
        """
        named = None if owners is None else [*owners]
        return int(self._database.value("set_limit", name=name, most=most, owners=named))

    def remove(self, name: str) -> int:
        """Remove a limit; return how many campaigns named it, which it limits no more.

        Raise `NotFound` if there is no such limit.
        """
        return int(self._database.value("remove_limit", name=name))
