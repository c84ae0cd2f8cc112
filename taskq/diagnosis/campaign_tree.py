"""The tree of campaigns for display, from readings: totals, forecasts and agents."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from itertools import accumulate
from typing import Any, Final

from taskq.db.access import Queries
from taskq.diagnosis.clauses import closed
from taskq.diagnosis.forecast import EndRate, Forecast, span_of
from taskq.diagnosis.simulating import foreseen
from taskq.diagnosis.tree_readings import (
    Prospect,
    TreeReadings,
    ended_of,
    is_enough,
    pace_of,
)
from taskq.model.run_ends import Span
from taskq.model.seed import STATUSES, is_within
from taskq.model.views import Status

#: Campaigns that one page shows.
MOST_SHOWN: Final = 1_000
#: Campaigns that a page shows unless the viewer wants more levels.
USUALLY_SHOWN: Final = 100
_COUNTS: Final = (*STATUSES, "failures", "losses")


def read_tree(queries: Queries, path: str) -> Tree:
    """Read the tree of a campaign once, without agents; raise `NotFound`. See `TreeReadings`."""
    return tree_now(TreeReadings(path, whole=False), queries)


def tree_now(read: TreeReadings, queries: Queries) -> Tree:
    """Return the tree with counts of now, without counts of agents; raise `NotFound`."""
    read.read(queries, "counts")
    for name in read.due():
        if name != "scopes":
            read.read(queries, name)
    return grow(read, time.monotonic())


def read_children(queries: Queries, path: str) -> list[CampaignNode]:
    """Read the campaigns directly below a path, without agents; raise `NotFound`.

    Of a large queue most have ended: about these there is nothing to say but their counts.
    """
    read = TreeReadings(path, whole=False)
    tree = tree_now(read, queries)
    children = [Status(**row) for row in queries.rows("counts", path=path, depth=1)]
    return [tree.nodes.get(child.path) or _ended(read, child, tree.at) for child in children]


def _ended(read: TreeReadings, status: Status, at: float) -> CampaignNode:
    return CampaignNode(
        status=status,
        own=status,
        depth=status.path.count("/"),
        agents=None,
        forecast=_forecast(read, status, _Outlook(), at, read.prospect),
        why="",
    )


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
    simulated: Span | None = None
    kinds: int = 0
    is_guess: bool = False

    def add(self, other: _Outlook) -> None:
        self.stopped += other.stopped
        for why, tasks in other.blocked.items():
            self.blocked[why] = self.blocked.get(why, 0) + tasks
        self.delayed += other.delayed
        if other.due_at is not None:
            self.due_at = max(self.due_at or other.due_at, other.due_at)
        self.usual_per_s += other.usual_per_s
        self.seeding |= other.seeding
        self.kinds |= other.kinds
        self.is_guess |= other.is_guess
        self.span = _later(self.span, other.span)
        self.simulated = _later(self.simulated, other.simulated)


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
    prospect = foreseen(read, at)
    outlooks = {path: _outlook(read, status, prospect) for path, status in own.items()}
    forecasts: dict[str, Forecast] = {}
    for path in reversed(list(own)):  # a path sorts before those below it
        forecasts[path] = _forecast(read, statuses[path], outlooks[path], at, prospect)
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


def _outlook(read: TreeReadings, status: Status, prospect: Prospect) -> _Outlook:
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
    if run := read.runs.get(status.campaign_id):
        # An attempt after which the task is retried makes no task final.
        tried = status.done + status.failures + status.losses
        found.usual_per_s = (
            status.working / run.start_s * min(1.0, ended_of(status) / max(1, tried))
        )
    if status.unfinished - found.stopped - sum(found.blocked.values()) > 0:
        found.simulated = prospect.ends.get(status.campaign_id)
        found.is_guess = found.simulated is None
        found.kinds = prospect.serving.get(status.campaign_id, 0)
    return found


def _later(first: Span | None, second: Span | None) -> Span | None:
    return second if first is None else first.at_least(second)


def _forecast(
    read: TreeReadings, status: Status, outlook: _Outlook, at: float, prospect: Prospect
) -> Forecast:
    """Return when the tasks of a campaign and all below it end; note the end in the outlook."""
    pace = pace_of(read.bases.get(status.campaign_id), ended_of(status), at)
    if outlook.usual_per_s and not is_enough(pace):
        pace = EndRate(outlook.usual_per_s)
    ending = status.unfinished - outlook.stopped - sum(outlook.blocked.values())
    late, delayed = 0, outlook.delayed
    due_s = None if outlook.due_at is None else outlook.due_at - at
    simulated = None if outlook.is_guess else outlook.simulated
    span = simulated
    if span is None and (
        (status.working and status.state == "open") or status.unfinished == status.working
    ):
        span = span_of(ending, pace)
    if due_s is not None and due_s > 0 and (span is None or due_s > span.s):
        late = delayed
        span = simulated or (span and span_of(ending - late, pace))
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
        slots=None if simulated is None else prospect.slots(outlook.kinds),
    )


def usual_levels(counts: Sequence[int]) -> int:
    """Return how many levels a page shows at first. counts: see `Tree.levels`."""
    return max(1, sum(count <= USUALLY_SHOWN for count in counts) - 1)


def parent(path: str) -> str | None:
    """Return the path above; None if there is none."""
    return None if path == "/" else path.rpartition("/")[0] or "/"


def _why(path: str, by: Status | None) -> str:
    return "" if by is None else closed(by.path, by.state, by.paused_why, path)
