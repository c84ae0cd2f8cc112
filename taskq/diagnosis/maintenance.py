"""Maintenance windows: announced times in which hosts, sites or campaigns are repaired.

In one, nobody gets a message about what is expected then, and nothing there is judged by time.
Nothing else is hidden: neither work that is lost or failed, nor results that cannot be right, nor
a database that was set back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Final

from taskq.db.access import Queries
from taskq.diagnosis.reasons import Reason, some
from taskq.model.errors import UsageError
from taskq.model.seed import check_path, is_within
from taskq.model.words import command, instant

#: Codes of reasons that a repair explains.
_EXPECTED: Final = frozenset(
    [
        "banned",
        "brake",
        "capacity-lost",
        "draining",
        "failing-host",
        "failing-site",
        "held-by-silent",
        "idle-agents",
        "idle-slots",
        "no-agents",
        "overdue",
        "paused",
        "silent",
        "silent-gateway",
        "slow",
        "slow-host",
        "slow-site",
        "split-hosts",
        "tags",
        "warning-exchange",
        "warning-transfer",
    ]
)
#: Seconds for which a window that has ended still speaks for the pace of a campaign.
LATELY_S: Final = 900.0
_LISTED_S: Final = 3 * 86_400.0


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """A maintenance window.

    Attributes:
        maintenance_id: By which it is ended.
        path: The campaign that it is for, with all below it.
        sites: Only at these sites and hosts; none of both means everywhere.
        hosts: Only at these hosts.
        begins: Its beginning.
        ends: Its end, which it has in any case.
        why: What is done.
        by: Who announced it.
        ended_by: Who ended it before its time; None if nobody did.
        now: When this was read.
    """

    maintenance_id: int
    path: str
    sites: Sequence[str]
    hosts: Sequence[str]
    begins: datetime
    ends: datetime
    why: str
    by: str
    ended_by: str | None
    now: datetime

    @property
    def state(self) -> str:
        """Whether it is to come, lasts, or has ended."""
        return "to come" if self.now < self.begins else "now" if self.now < self.ends else "ended"

    @property
    def lasts(self) -> bool:
        """Whether it is on."""
        return self.begins <= self.now < self.ends

    @property
    def what(self) -> str:
        """What is repaired, in words."""
        places = [
            f"{word if len(names) == 1 else f'{word}s'} {some(names)}"
            for word, names in (("host", self.hosts), ("site", self.sites))
            if names
        ]
        where = "" if self.path == "/" and places else self.path
        return " for ".join(filter(None, (" and ".join(places), where)))

    def covers(self, path: str, site: str = "", host: str = "") -> bool:
        """Return whether it is for a campaign, and for a site or host if it names any."""
        is_there = not (self.sites or self.hosts) or host in self.hosts or site in self.sites
        return is_within(path, self.path) and is_there


class Maintenance:
    """The maintenance windows of a queue. Every call reads the database; no caching."""

    def __init__(self, database: Queries) -> None:
        self._database = database

    def list(self, path: str = "/") -> list[MaintenanceWindow]:
        """Return the windows of a campaign, and of those above and below it, latest first.

        Those that last, are to come, or have ended within three days.
        """
        return read_windows(self._database, check_path(path), lately_s=_LISTED_S)

    def start(
        self,
        *,
        until: datetime | timedelta,
        why: str,
        path: str = "/",
        sites: Sequence[str] = (),
        hosts: Sequence[str] = (),
        begins: datetime | timedelta | None = None,
    ) -> int:
        """Announce a window; return its id.

        path: the campaign that it is for, with all below it. sites, hosts: only there. until: an
        aware instant, or a duration from now on; it lasts for a week at most. begins: as until,
        within 30 days; None: now. Raise `NotFound` if there is no such campaign, `UsageError` for
        an invalid value, `Conflict` if 100 windows have not ended.
        """
        in_s = 0.0 if begins is None else _from_now(begins)
        return int(
            self._database.value(
                "start_maintenance",
                path=check_path(path),
                sites=[*sites],
                hosts=[*hosts],
                why=why.strip(),
                lasts_s=_from_now(until) - in_s,
                in_s=in_s,
            )
        )

    def end(self, maintenance_id: int) -> bool:
        """End a window now; return whether it had not ended. Raise `NotFound`."""
        return bool(self._database.value("end_maintenance", maintenance=maintenance_id))


def read_windows(
    database: Queries, path: str, *, lately_s: float = LATELY_S
) -> list[MaintenanceWindow]:
    """Return the windows of a campaign, those above and below it, and those that ended lately."""
    rows = database.rows("maintenance", path=path, lately_s=lately_s)
    return [MaintenanceWindow(**row) for row in rows]


def window_of(
    windows: Iterable[MaintenanceWindow],
    code: str,
    campaign: str,
    places: Collection[tuple[str, str]],
) -> MaintenanceWindow | None:
    """Return the window in which a reason is expected, the first to end; None if it is in none.

    places: sites and hosts of all that it concerns, each of which must be in a window.
    """
    if code not in _EXPECTED:
        return None
    lasting = [it for it in windows if it.lasts]
    found = [[it for it in lasting if it.covers(campaign, *place)] for place in places]
    some_windows = (it for there in found for it in there)
    return min(some_windows, key=lambda it: it.ends, default=None) if all(found) else None


def announced(windows: Iterable[MaintenanceWindow]) -> Iterator[Reason]:
    """Say which windows are on: what is not judged meanwhile."""
    for window in windows:
        if window.lasts:
            yield Reason(
                "maintenance",
                f"Maintenance of {window.what} until {instant(window.ends)}, announced by "
                f"{window.by}: {window.why}. No message goes out about what is expected in it, and "
                "nothing there is judged by time.",
                commands=[command("maintenance", "end", f"{window.maintenance_id}")],
                figures={"maintenance": window.maintenance_id},
                since=window.begins,
            )


def _from_now(when: datetime | timedelta) -> float:
    if isinstance(when, timedelta):
        return when.total_seconds()
    if when.tzinfo is None:
        raise UsageError("a moment needs a time zone, such as datetime.now(timezone.utc)")
    return (when - datetime.now(timezone.utc)).total_seconds()
