"""What the tree of campaigns is made of, each part as it was last read."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from taskq.db.access import Queries
from taskq.db.rows import Row
from taskq.diagnosis.forecast import ENOUGH, EndRate, Standstill, measured
from taskq.model.errors import NotOverGateway
from taskq.model.run_ends import Span
from taskq.model.views import Status

#: Seconds for which the slower readings are kept.
FRESH_S: Final = {
    "sharing": 10.0,
    "kinds": 10.0,
    "paces": 60.0,
    "scopes": 10.0,
    "standstills": 10.0,
    "dues": 5.0,
}
#: The statements that read the parts of a tree.
STATEMENTS: Final = {
    "counts": "counts",
    "sharing": "sharing_campaigns",
    "kinds": "slot_kinds",
    "paces": "paces",
    "scopes": "scopes",
    "standstills": "standstill",
    "dues": "last_due",
}
#: Campaigns whose run times are read: those with most working tasks. Tasks of each that are read.
_ESTIMATED: Final = 20
RUNS: Final = 1_000
#: With fewer waiting tasks for each that works, the last ones decide when a campaign ends.
_LAST: Final = 2
#: Campaigns of which is read how they share slots.
_SHARING: Final = 2_000


@dataclass(frozen=True, slots=True)
class Base:
    """The start of a pace: the number of ended tasks, and its instant by a monotonic clock.

    working: how many tasks were at work since, on average; None if unknown.
    """

    ended: int
    at: float
    working: float | None = None


@dataclass(frozen=True, slots=True)
class UsualRun:
    """Run times of a campaign's tasks, see `usual_run` in SQL. at: read, by a monotonic clock."""

    mean_s: float
    batch: int = 1
    attempts: int = 0
    spread: float | None = None
    youngest_s: float = 0.0
    at: float = 0.0

    @property
    def start_s(self) -> float:
        """How long a start of all tasks that it may have takes."""
        return self.mean_s * self.batch


@dataclass(frozen=True, slots=True)
class Prospect:
    """When campaigns end that share the slots of now.

    ends: by campaign, as far as that can be known. serving: which kinds of slots serve a campaign,
    as bits; slots_of: how many slots each kind has. at: by a monotonic clock; anew: see below.
    """

    ends: Mapping[int, Span] = field(default_factory=dict)
    serving: Mapping[int, int] = field(default_factory=dict)
    slots_of: Sequence[float] = ()
    at: float = 0.0
    anew: int = -1

    def slots(self, kinds: int) -> int:
        """Return how many slots some kinds have together."""
        return round(sum(it for number, it in enumerate(self.slots_of) if kinds >> number & 1))


@dataclass(slots=True)
class TreeReadings:
    """What a tree is made of, each part as it was last read.

    whole: all campaigns, or of a large queue only those about which there is something to say.
    statuses: own counts, ordered by path. sums: with all below, by path, unless whole. bases: where
    paces begin, by campaign. runs: run times of the campaigns in which most tasks work and of which
    no pace is known. scopes: how many agents serve just that campaign with all below it; None if
    not known. dues: when the last delayed task of a campaign is due, by a monotonic clock, as far
    as known. sharing, kinds: how the campaigns at and below `scope` share slots, and the slots, as
    `sharing_campaigns` and `slot_kinds` in SQL have them. scope: the whole queue if the caller may
    see that, else the path. anew: rises when something is read from which ends follow; prospect:
    what followed last.
    """

    path: str
    statuses: list[Status] = field(default_factory=list)
    bases: Mapping[int, Base] = field(default_factory=dict)
    runs: Mapping[int, UsualRun] = field(default_factory=dict)
    scopes: Mapping[int, int] | None = None
    dues: Mapping[int, float] = field(default_factory=dict)
    standstills: Mapping[int, Standstill] = field(default_factory=dict)
    whole: bool = True
    sums: Mapping[str, Sequence[int]] = field(default_factory=dict)
    sharing: Sequence[Row] = ()
    kinds: Sequence[Row] = ()
    scope: str = "/"
    anew: int = 0
    prospect: Prospect = field(default_factory=Prospect)
    _read_at: dict[str, float] = field(default_factory=dict)
    _begun_then: Mapping[int, int] = field(default_factory=dict)

    def due(self) -> list[str]:
        """Return the parts apart from the counts that are worth reading again now."""
        now = time.monotonic()
        return [
            name
            for name, fresh_s in FRESH_S.items()
            if now >= self._read_at.get(name, -math.inf) + fresh_s
            and (name != "dues" or any(status.delayed for status in self.statuses))
        ]

    def read(self, queries: Queries, name: str) -> None:
        """Read a part; raise `NotFound` if there is no such campaign."""
        self._read_at[name] = time.monotonic()
        if name == "counts" and not self.whole:
            self._read_notable(queries)
            return
        try:
            self.take(name, queries.rows(STATEMENTS[name], **self.values(name)))
        except NotOverGateway:  # one of an older release
            return
        if name == "sharing" and not self.sharing and self.scope != self.path:
            self.scope = self.path
            self.take(name, queries.rows(STATEMENTS[name], **self.values(name)))
        if name == "paces":
            self._read_run_times(queries)

    def _read_notable(self, queries: Queries) -> None:
        """Read the campaigns about which there is something to say."""
        try:
            rows = queries.rows("notable_counts", path=self.path)
        except NotOverGateway:  # one of an older release
            self.take("counts", queries.rows("counts", path=self.path, depth=None))
            return
        own = [dict(row) for row in rows]
        sums = {row["path"]: row.pop("with_below") for row in own}
        self.sums = {path: counted for path, counted in sums.items() if counted is not None}
        self.take("counts", own)

    def values(self, name: str) -> dict[str, object]:
        """Return the parameters of the statement that reads a part."""
        if name == "sharing":
            return {"scope": self.scope, "most": _SHARING}
        if name == "kinds":
            return {"scope": self.scope}
        if name == "paces":
            return {"path": self.scope if self.sharing else self.path}
        return {"path": self.path} | ({"depth": None} if name == "counts" else {})

    def take(self, name: str, rows: Sequence[Row]) -> None:
        """Take the rows of the statement that reads a part, right after it has run."""
        now = time.monotonic()
        self.anew += name in {"sharing", "kinds", "paces"}
        if name == "counts":
            self.statuses = [Status(**row) for row in rows]
            if self.standstills:
                self._drop_standstills()
        elif name == "scopes":
            self.scopes = {row["campaign_id"]: row["agents"] for row in rows}
        elif name == "standstills":
            self.standstills = {row["campaign_id"]: Standstill(**row) for row in rows}
            self._begun_then = self._begun()
        elif name == "dues":
            self.dues = {row["campaign_id"]: now + row["due_s"] for row in rows}
        elif name == "sharing":
            self.sharing = rows
        elif name == "kinds":
            self.kinds = rows
        else:
            self.bases = {
                row["campaign_id"]: Base(row["ended"], now - row["active_s"], row.get("working"))
                for row in rows
            }

    def _begun(self) -> dict[int, int]:
        """Return how many attempts have begun, by campaign."""
        return {
            status.campaign_id: status.working + status.done + status.failures + status.losses
            for status in self.statuses
        }

    def _drop_standstills(self) -> None:
        """Forget why no agent can claim where one has claimed since that was read."""
        begun, then = self._begun(), self._begun_then
        self.standstills = {
            campaign: reading
            for campaign, reading in self.standstills.items()
            if not reading.why or begun.get(campaign, 0) <= then.get(campaign, math.inf)
        }

    def _read_run_times(self, queries: Queries) -> None:
        """Read the run times of attempts where no pace is known, or the last tasks run."""
        self.take_runs(
            {
                campaign: queries.row("usual_run", campaign=campaign, most=RUNS)
                for campaign in self.running()
            }
        )

    def take_runs(self, rows: Mapping[int, Row | None]) -> None:
        """Take the rows of `usual_run`, by campaign, right after it has run."""
        now = time.monotonic()
        self.anew += 1
        self.runs = {
            campaign: UsualRun(
                row["mean_s"],
                row["batch"],
                row["attempts"],
                row.get("spread"),  # one of an older release has neither
                row.get("youngest_s") or 0.0,
                now,
            )
            for campaign, row in rows.items()
            if row and row["mean_s"]
        }

    def running(self) -> list[int]:
        """Return the campaigns whose run times are worth reading."""
        now, found = time.monotonic(), {}
        for status in self.statuses:
            if status.working:
                is_known = is_enough(
                    pace_of(self.bases.get(status.campaign_id), ended_of(status), now)
                )
                is_last = status.waiting + status.delayed <= _LAST * status.working
                if is_last or not is_known:
                    found[status.campaign_id] = (is_known, -status.working, status.path)
        for row in self.sharing:
            if row["working"] and row["campaign_id"] not in self.bases:
                found.setdefault(row["campaign_id"], (True, -row["working"], ""))
        return sorted(found, key=lambda campaign: found[campaign])[:_ESTIMATED]


def ended_of(status: Status) -> int:
    """Return how many tasks have ended by an attempt."""
    return status.done + status.failed


def pace_of(base: Base | None, ended: int, at: float) -> EndRate | None:
    """Return the rate since a base; None if it cannot be known yet."""
    return None if base is None else measured(ended - base.ended, at - base.at)


def is_enough(pace: EndRate | None) -> bool:
    """Return whether so many tasks ended that a pace tells more than run times do."""
    return pace is not None and (pace.ended or 0) >= ENOUGH
