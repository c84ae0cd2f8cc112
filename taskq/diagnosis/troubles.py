"""Troubles: the reasons in which something is wrong, as keepers remember them.

A keeper stores what it finds at the root, and at campaigns of notification rules and tokens; see
`taskq.upkeep.looks`. Where none looks, the reasons of now are read, without a memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Final, Literal, TypeAlias

from taskq.db.access import Queries
from taskq.db.gateway_queries import home
from taskq.db.rows import Row
from taskq.diagnosis.events import NEWS, event_of, subject
from taskq.diagnosis.explaining import explained
from taskq.diagnosis.maintenance import MaintenanceWindow, read_windows
from taskq.diagnosis.odd_readings import OddReader, read_odd_results
from taskq.diagnosis.reasons import Reason, Whereabouts
from taskq.model.errors import UsageError
from taskq.model.seed import check_path, is_within
from taskq.model.words import instant

State: TypeAlias = Literal["now", "acknowledged", "snoozed", "maintenance", "over"]

#: Troubles that one call returns.
MAX_TROUBLES: Final = 1_000
MAX_SNOOZE_S: Final = 7 * 86_400
#: For how long pages offer to snooze one: as the command writes it, and in seconds.
SNOOZES: Final[Mapping[str, float]] = {"2h": 7_200.0, "12h": 43_200.0, "3d": 259_200.0}
_REMEMBERED: Final = (
    *("trouble_id", "since", "acknowledged_at", "snoozed_until", "by", "note"),
    *("returned_at", "maintained_until"),
)
#: Seconds since the last look after which what it found counts as old.
_OLD_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class KnownTrouble:
    """Something that is wrong, or was.

    Attributes:
        trouble_id: By which it is acknowledged; None while no keeper has seen it.
        code: The kind of reason, as of `taskq explain`.
        text: What is wrong, and what mends it.
        path: The campaign that has all of it.
        site: At which it is, if it is at one; else empty.
        host: At which it is, if it is at one; else empty.
        since: Since when it is so; None if that is unknown.
        seen_at: When a keeper saw it last; None for now.
        gone_at: When it was over; None if it holds.
        cost: Core-hours an hour; None if that is unknown.
        tasks: How many tasks it concerns.
        lost: How many attempts or tasks it has cost.
        blocks: Whether these tasks do not run before something changes.
        commands: What mends it or shows more, ready to type.
        acknowledged_at: When somebody acknowledged it; None if nobody has.
        snoozed_until: Until when somebody snoozed it; None if nobody has.
        by: Who did; None if nobody has.
        note: What they wrote; None if nothing.
        returned_at: When it became so much worse that this counts no more; None if it did not.
        maintained_until: The end of the maintenance window in which it is expected; None if it is
            in none.
        state: Whether it holds, and who knows of it: now, acknowledged, snoozed, maintenance, over.
    """

    trouble_id: int | None
    code: str
    text: str
    path: str
    _: KW_ONLY
    site: str = ""
    host: str = ""
    since: datetime | None = None
    seen_at: datetime | None = None
    gone_at: datetime | None = None
    cost: float | None = None
    tasks: int = 0
    lost: int = 0
    blocks: bool = False
    commands: Sequence[str] = field(default_factory=tuple)
    acknowledged_at: datetime | None = None
    snoozed_until: datetime | None = None
    by: str | None = None
    note: str | None = None
    returned_at: datetime | None = None
    maintained_until: datetime | None = None
    state: State = "now"

    @property
    def where(self) -> str:
        """The campaign, the site and the host, in words."""
        return str(Whereabouts(self.path, self.site, self.host))

    @property
    def known(self) -> str:
        """Who knows of it, in words; empty if nobody has to."""
        note = f": {self.note}" if self.note else ""
        if self.state == "acknowledged":
            return f"acknowledged by {self.by} at {instant(self.acknowledged_at)}{note}"
        if self.state == "snoozed":
            return f"snoozed by {self.by} until {instant(self.snoozed_until)}{note}"
        if self.state == "maintenance":
            return f"expected in maintenance until {instant(self.maintained_until)}"
        if self.state == "over":
            return f"over at {instant(self.gone_at)}"
        return f"has become worse at {instant(self.returned_at)}" if self.returned_at else ""

    @property
    def full_text(self) -> str:
        """The text, with since when and at what cost."""
        return Reason(self.code, self.text, since=self.since, cost=self.cost).full_text


@dataclass(frozen=True, slots=True)
class TroubleList:
    """Troubles at a campaign, those that cost most first; those that are over last.

    looked_at: when a keeper looked there; None if the reasons of now were read instead.
    """

    path: str
    looked_at: datetime | None
    troubles: Sequence[KnownTrouble]

    @property
    def open(self) -> list[KnownTrouble]:
        """Those that hold, that nobody has acknowledged or snoozed, and that nobody expects."""
        return [trouble for trouble in self.troubles if trouble.state == "now"]


class Troubles:
    """What is wrong, and who knows of it. Every call reads the database; no caching."""

    def __init__(self, database: Queries) -> None:
        self._database = database

    def list(
        self, path: str | None = None, *, since: datetime | timedelta | None = None
    ) -> TroubleList:
        """Return what is wrong at a campaign and all below it.

        since: an instant, or so long ago: also what was wrong since then, three days at most. Where
        no keeper has looked within five minutes, read the reasons of now. Raise `NotFound` if there
        is no such campaign.
        """
        return read_troubles(self._database, path, since=since)

    def acknowledge(self, trouble_id: int, *, note: str | None = None) -> None:
        """Acknowledge a trouble: no more messages about it.

        It counts until the trouble is over or costs twice as much. Raise `NotFound` if there is
        none, `Conflict` if it is over.
        """
        self._set(trouble_id, note=note)

    def snooze(
        self, trouble_id: int, duration: timedelta | float, *, note: str | None = None
    ) -> None:
        """Acknowledge a trouble for some time, in seconds, a week at most; see `acknowledge`."""
        until_s = duration.total_seconds() if isinstance(duration, timedelta) else float(duration)
        if not 0 < until_s <= MAX_SNOOZE_S:
            raise UsageError("a trouble is snoozed for some time, and for a week at most")
        self._set(trouble_id, until_s=until_s, note=note)

    def undo(self, trouble_id: int) -> None:
        """Take an acknowledgement or a snooze back."""
        self._set(trouble_id, undo=True)

    def _set(
        self,
        trouble_id: int,
        *,
        until_s: float | None = None,
        note: str | None = None,
        undo: bool = False,
    ) -> None:
        self._database.row(
            "acknowledge_trouble", trouble=trouble_id, until_s=until_s, note=note, undo=undo
        )


def read_troubles(
    database: Queries,
    path: str | None = None,
    *,
    since: datetime | timedelta | None = None,
    whole: bool = True,
    read_odd: OddReader = read_odd_results,
) -> TroubleList:
    """Return the troubles at a campaign; see `Troubles.list`.

    whole, read_odd: for callers that may see the whole queue, and how; see `read_facts`.
    """
    path = home(database) or "/" if path is None else check_path(path)
    watch = database.row("trouble_watch", path=path, whole=whole)
    rows: list[Row] = []
    now = datetime.now(timezone.utc)
    if watch is not None:
        now, looked_at = watch["now"], watch["looked_at"]
        since = now - since if isinstance(since, timedelta) else since or now
        asked = {"path": watch["path"], "since": since, "limit": MAX_TROUBLES}
        rows = database.rows("trouble_rows", whole=whole, **asked)
        if watch["path"] == path and (now - looked_at).total_seconds() < _OLD_S:
            return TroubleList(path, looked_at, [_stored(row, now) for row in rows])
    reasons = [
        it
        for it in explained(database, path, whole=whole, read_odd=read_odd).reasons
        if event_of(it) is not None and it.code not in NEWS
    ]
    windows = read_windows(database, path)
    found = [_live(it, rows, now, windows, path) for it in reasons]
    found.sort(key=lambda it: (-(it.cost or 0), not it.blocks, -it.lost, -it.tasks))
    over = (row for row in rows if row["gone_at"] is not None and is_within(row["path"], path))
    return TroubleList(path, None, [*found, *(_stored(row, now) for row in over)])


def open_number(database: Queries, path: str) -> int | None:
    """Return how many troubles nobody knows of, as a keeper lately found; None if none looked."""
    watch = database.row("trouble_watch", path=path, whole=True)
    if watch is None or watch["path"] != path:
        return None
    now = watch["now"]
    if (now - watch["looked_at"]).total_seconds() >= _OLD_S:
        return None
    rows = database.rows("trouble_rows", path=path, whole=True, since=now, limit=MAX_TROUBLES)
    return len([row for row in rows if _memory(row, now)["state"] == "now"])


def _live(
    reason: Reason,
    known: Iterable[Row],
    now: datetime,
    windows: Sequence[MaintenanceWindow],
    path: str,
) -> KnownTrouble:
    """Return a reason as a trouble, with what keepers know of it."""
    about = subject(path, reason)
    same = (row for row in known if (row["code"], row["subject"]) == (reason.code, about))
    row = next((row for row in same if row["gone_at"] is None), None)
    place = Whereabouts.of(path, reason)
    window = next((it for it in windows if it.maintenance_id == reason.maintenance), None)
    fields: dict[str, Any] = {"trouble_id": None, "since": reason.since}
    if row is not None:
        fields = _memory(row, now)
    elif window is not None:
        fields |= {"state": "maintenance", "maintained_until": window.ends}
    return KnownTrouble(
        code=reason.code,
        text=reason.text,
        path=place.campaign,
        site=place.site,
        host=place.host,
        cost=reason.cost,
        tasks=reason.tasks,
        lost=reason.lost,
        blocks=reason.blocks,
        commands=reason.commands,
        **fields,
    )


def _stored(row: Row, now: datetime) -> KnownTrouble:
    kept = ("code", "path", "site", "host", "cost", "tasks", "lost", "blocks", "seen_at", "gone_at")
    return KnownTrouble(
        text=row["figures"]["text"],
        commands=row["figures"]["commands"],
        **{name: row[name] for name in kept},
        **_memory(row, now),
    )


def _memory(row: Row, now: datetime) -> dict[str, Any]:
    """Return what a keeper knows of a trouble that a reason does not say."""
    state: State = "now"
    if row["gone_at"] is not None:
        state = "over"
    elif row["acknowledged_at"] is not None:
        state = "acknowledged"
    elif row["snoozed_until"] is not None and row["snoozed_until"] > now:
        state = "snoozed"
    elif row["maintained_until"] is not None and row["maintained_until"] > now:
        state = "maintenance"
    return {"state": state, **{name: row[name] for name in _REMEMBERED}}
