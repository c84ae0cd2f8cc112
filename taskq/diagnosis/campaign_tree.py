"""The tree of campaigns for display, from readings: totals, forecasts and agents."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from itertools import accumulate
from typing import Any, Final

from taskq.db.access import Queries
from taskq.db.rows import Row
from taskq.diagnosis.clauses import closed
from taskq.diagnosis.forecast import ENOUGH, EndRate, Forecast, Span, Standstill, measured, span_of
from taskq.model.errors import NotOverGateway
from taskq.model.seed import STATUSES, is_within
from taskq.model.views import Status

#: Campaigns that one page shows.
MOST_SHOWN: Final = 1_000
#: Campaigns that a page shows unless the viewer wants more levels.
USUALLY_SHOWN: Final = 100
_COUNTS: Final = (*STATUSES, "failures", "losses")


#: Seconds for which the slower readings are kept.
FRESH_S: Final = {"paces": 60.0, "scopes": 10.0, "standstills": 10.0, "dues": 5.0}
#: The statements that read the parts of a tree.
STATEMENTS: Final = {
    "counts": "counts",
    "paces": "paces",
    "scopes": "scopes",
    "standstills": "standstill",
    "dues": "last_due",
}
#: Campaigns whose rates are estimated: those with most working tasks. Tasks of each that are read.
_ESTIMATED: Final = 20
_RUNS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Base:
    """The start of a pace: the number of ended tasks, and its instant by a monotonic clock."""

    ended: int
    at: float


@dataclass(slots=True)
class TreeReadings:
    """What a tree is made of, each part as it was last read.

    whole: all campaigns, or of a large queue only those about which there is something to say.
    statuses: own counts, ordered by path. sums: with all below, by path, unless whole. bases: where
    paces begin, by campaign. usual_s: mean run times of the campaigns in which most tasks work and
    of which no pace is known, of full starts where many tasks have one. scopes: how many agents
    serve just that campaign with all below it; None if not known. dues: when the last delayed task
    of a campaign is due, by a monotonic clock, as far as known.
    """

    path: str
    statuses: list[Status] = field(default_factory=list)
    bases: Mapping[int, Base] = field(default_factory=dict)
    usual_s: Mapping[int, float] = field(default_factory=dict)
    scopes: Mapping[int, int] | None = None
    dues: Mapping[int, float] = field(default_factory=dict)
    standstills: Mapping[int, Standstill] = field(default_factory=dict)
    whole: bool = True
    sums: Mapping[str, Sequence[int]] = field(default_factory=dict)
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
        return {"path": self.path} | ({"depth": None} if name == "counts" else {})

    def take(self, name: str, rows: Sequence[Row]) -> None:
        """Take the rows of the statement that reads a part, right after it has run."""
        now = time.monotonic()
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
        else:
            self.bases = {
                row["campaign_id"]: Base(row["ended"], now - row["active_s"]) for row in rows
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
        """Read the run times of attempts where no pace is known."""
        now = time.monotonic()
        unknown = [
            status
            for status in self.statuses
            if status.working
            and not _is_enough(_pace(self.bases.get(status.campaign_id), _ended(status), now))
        ]
        unknown.sort(key=lambda status: (-status.working, status.path))
        found = {}
        for status in unknown[:_ESTIMATED]:
            row = queries.row("usual_run", campaign=status.campaign_id, most=_RUNS)
            if row and row["mean_s"]:
                found[status.campaign_id] = row["mean_s"] * row["batch"]
        self.usual_s = found

    def tree(self, queries: Queries) -> Tree:
        """Return the tree with counts of now, without counts of agents; raise `NotFound`."""
        self.read(queries, "counts")
        for name in self.due():
            if name != "scopes":
                self.read(queries, name)
        return grow(self, time.monotonic())


def read_tree(queries: Queries, path: str, *, whole: bool = False) -> Tree:
    """Read the tree of a campaign once, without agents; raise `NotFound`. See `TreeReadings`."""
    return TreeReadings(path, whole=whole).tree(queries)


@dataclass(frozen=True, slots=True)
class CampaignNode:
    """A campaign in the tree. status: its counts with all below it; own: without.

    agents: those that serve it, above or below; None if not known yet. why: why its tasks are not
    handed out; empty if they are.
    """

    status: Status
    own: Status
    depth: int
    agents: int | None
    forecast: Forecast
    why: str


@dataclass(frozen=True, slots=True)
class Tree:
    """All campaigns, ordered by path. at: when it was read, by a monotonic clock."""

    nodes: Mapping[str, CampaignNode] = field(default_factory=dict)
    at: float = 0.0

    def within(self, path: str) -> list[CampaignNode]:
        """Return the campaign at a path and all below it, in the order of their paths."""
        return [node for name, node in self.nodes.items() if is_within(name, path)]

    def levels(self, path: str) -> list[int]:
        """Return the number of campaigns from a path down to each level below it."""
        found = Counter(node.depth for node in self.within(path))
        return list(accumulate(found[depth] for depth in sorted(found)))

    def shown(self, path: str, levels: int) -> tuple[list[CampaignNode], int]:
        """Return what a page shows of `within`, and how many campaigns it leaves out.

        levels: how far down; fewer if these are too many. No campaign comes without those above it.
        """
        found = self.within(path)
        least = min((node.depth for node in found), default=0)
        near = [node for node in found if node.depth - least <= levels]
        nearest = sorted(near, key=lambda node: (node.depth, node.status.path))[:MOST_SHOWN]
        return sorted(nearest, key=_place), len(found) - len(nearest)


def _place(node: CampaignNode) -> list[str]:
    """Return the sort key that puts a campaign behind the one above it, before its neighbours."""
    return node.status.path.rstrip("/").split("/")


@dataclass(slots=True)
class _Outlook:
    """What becomes of the unfinished tasks of a campaign and all below it.

    stopped: tasks that wait in campaigns that are not open. blocked: those that no agent can
    claim, by reason. delayed: those of open campaigns with agents; due_at: of the last one.
    usual_per_s: the rate estimated from run times.
    """

    stopped: int = 0
    blocked: dict[str, int] = field(default_factory=dict)
    delayed: int = 0
    due_at: float | None = None
    usual_per_s: float = 0.0
    seeding: bool = False
    span: Span | None = None

    def add(self, other: _Outlook) -> None:
        self.stopped += other.stopped
        for why, tasks in other.blocked.items():
            self.blocked[why] = self.blocked.get(why, 0) + tasks
        self.delayed += other.delayed
        if other.due_at is not None:
            self.due_at = max(self.due_at or other.due_at, other.due_at)
        self.usual_per_s += other.usual_per_s
        self.seeding |= other.seeding
        self.span = other.span if self.span is None else self.span.at_least(other.span)


def grow(read: TreeReadings, at: float) -> Tree:
    """Return the tree of campaigns from readings, at an instant by a monotonic clock.

    No campaign ends before those below it.
    """
    own = {status.path: status for status in read.statuses}
    statuses = _with_below(read, own)
    below = dict.fromkeys(own, 0)
    reach: dict[str, int] = defaultdict(int)
    if read.scopes is not None:
        for path, status in own.items():
            below[path] = read.scopes.get(status.campaign_id, 0)
    outlooks = {path: _outlook(read, status) for path, status in own.items()}
    forecasts: dict[str, Forecast] = {}
    for path in reversed(list(own)):  # a path sorts before those below it
        forecasts[path] = _forecast(read, statuses[path], outlooks[path], at)
        above = parent(path)
        if above in own:
            below[above] += below[path]
            outlooks[above].add(outlooks[path])
    nodes: dict[str, CampaignNode] = {}
    closing: dict[str, Status] = {}
    for path, status in own.items():
        above = parent(path)
        if status.state != "open":
            closing[path] = status
            if above in own and own[above].state == status.state and not status.paused_why:
                closing[path] = closing[above]
        if read.scopes is not None and above in own:
            reach[path] = reach[above] + read.scopes.get(own[above].campaign_id, 0)
        nodes[path] = CampaignNode(
            status=statuses[path],
            own=status,
            depth=0 if path == "/" else path.count("/"),
            agents=None if read.scopes is None else below[path] + reach[path],
            forecast=forecasts[path],
            why=_why(path, closing.get(path)),
        )
    return Tree(nodes, at)


def _with_below(read: TreeReadings, own: Mapping[str, Status]) -> dict[str, Status]:
    """Return each campaign's counts with all below it."""
    totals: dict[str, Sequence[int]] = {
        path: [getattr(status, name) for name in _COUNTS] for path, status in own.items()
    }
    totals.update(read.sums)
    for path in reversed(list(own)):
        above = parent(path)
        if above is not None and above in own and above not in read.sums:
            totals[above] = [a + b for a, b in zip(totals[above], totals[path], strict=True)]
    changed = {parent(path) for path in own} | {*read.sums}  # below most there is nothing
    return {
        path: _counting(status, totals[path]) if path in changed else status
        for path, status in own.items()
    }


def _counting(status: Status, counted: Sequence[int]) -> Status:
    values: dict[str, Any] = dict(zip(_COUNTS, counted, strict=True))
    return replace(status, **values)


def _outlook(read: TreeReadings, status: Status) -> _Outlook:
    """Return what becomes of a campaign's own tasks."""
    found, halted = _Outlook(), read.standstills.get(status.campaign_id)
    found.seeding = halted is not None and halted.seeding
    if status.state != "open":
        found.stopped = status.waiting + status.delayed
    elif halted is not None and halted.why:
        if status.waiting + status.delayed:
            found.blocked[halted.why] = status.waiting + status.delayed
    elif status.delayed:
        found.delayed, found.due_at = status.delayed, read.dues.get(status.campaign_id)
    if mean_s := read.usual_s.get(status.campaign_id):
        # An attempt after which the task is retried makes no task final.
        tried = status.done + status.failures + status.losses
        found.usual_per_s = status.working / mean_s * min(1.0, _ended(status) / max(1, tried))
    return found


def _forecast(read: TreeReadings, status: Status, outlook: _Outlook, at: float) -> Forecast:
    """Return when the tasks of a campaign and all below it end; note the end in the outlook."""
    pace = _pace(read.bases.get(status.campaign_id), _ended(status), at)
    if outlook.usual_per_s and not _is_enough(pace):
        pace = EndRate(outlook.usual_per_s)
    ending = status.unfinished - outlook.stopped - sum(outlook.blocked.values())
    late, delayed = 0, outlook.delayed
    due_s = None if outlook.due_at is None else outlook.due_at - at
    span = None
    if (status.working and status.state == "open") or status.unfinished == status.working:
        span = span_of(ending, pace)
    if due_s is not None and due_s > 0 and (span is None or due_s > span.s):
        late = delayed
        span = span and span_of(ending - late, pace)
    if ending <= 0 or ending == late:
        span = None
    elif span is not None:
        span = span.at_least(outlook.span)
    outlook.span = span or outlook.span
    due_at = None
    if late and due_s is not None:
        due_at = datetime.now(timezone.utc) + timedelta(seconds=due_s)
    return Forecast(
        pace=pace,
        ending=max(ending, 0),
        span=span,
        late=late,
        due_at=due_at,
        due_s=due_s if late else None,
        paused=outlook.stopped,
        blocked=dict(outlook.blocked),
        seeding=outlook.seeding,
    )


def _ended(status: Status) -> int:
    return status.done + status.failed


def _pace(base: Base | None, ended: int, at: float) -> EndRate | None:
    return None if base is None else measured(ended - base.ended, at - base.at)


def _is_enough(pace: EndRate | None) -> bool:
    """Return whether so many tasks ended that a pace tells more than run times do."""
    return pace is not None and (pace.ended or 0) >= ENOUGH


def usual_levels(counts: Sequence[int]) -> int:
    """Return how many levels a page shows at first. counts: see `Tree.levels`."""
    return max(1, sum(count <= USUALLY_SHOWN for count in counts) - 1)


def parent(path: str) -> str | None:
    """Return the path above; None if there is none."""
    return None if path == "/" else path.rpartition("/")[0] or "/"


def _why(path: str, by: Status | None) -> str:
    return "" if by is None else closed(by.path, by.state, by.paused_why, path)
