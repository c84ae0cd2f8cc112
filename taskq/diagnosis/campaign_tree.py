"""The tree of campaigns for display, from readings: totals, paces and agents, also as texts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Final

from taskq.diagnosis.trend import CampaignPace, make_pace
from taskq.model.seed import STATUSES, is_within
from taskq.model.views import Status
from taskq.model.words import duration, rate

#: Campaigns that one page shows.
MOST_SHOWN: Final = 1_000
#: Campaigns that a page shows unless the viewer wants more levels.
USUALLY_SHOWN: Final = 100
_COUNTS: Final = (*STATUSES, "failures", "losses")


@dataclass(frozen=True, slots=True)
class Base:
    """The start of a pace: the number of ended tasks, and its instant by a monotonic clock."""

    ended: int
    at: float


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
    pace: CampaignPace | None
    why: str

    @property
    def ended(self) -> int:
        """Tasks that are done or failed."""
        return self.status.done + self.status.failed


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


def grow(
    statuses: Iterable[Status],
    bases: Mapping[int, Base],
    scopes: Mapping[int, int] | None,
    at: float,
    dues: Mapping[int, float] | None = None,
) -> Tree:
    """Return the tree of campaigns with their own counts, read at an instant.

    bases: where paces begin, by campaign. scopes: how many agents serve just that campaign with all
    below it; None if not known. dues: when the last delayed task of a campaign is due, as far as
    known; no campaign above it ends sooner.
    """
    own = {one.path: one for one in statuses}
    totals = {path: [getattr(one, name) for name in _COUNTS] for path, one in own.items()}
    below = dict.fromkeys(own, 0)
    due = {path: (dues or {}).get(one.campaign_id) for path, one in own.items() if one.delayed}
    reach: dict[str, int] = defaultdict(int)
    if scopes is not None:
        for path, one in own.items():
            below[path] = scopes.get(one.campaign_id, 0)
    for path in reversed(list(own)):  # a path sorts before those below it
        above = parent(path)
        if above in totals:
            totals[above] = [a + b for a, b in zip(totals[above], totals[path], strict=True)]
            below[above] += below[path]
            if (last := due.get(path)) is not None:
                due[above] = max(last, due.get(above) or last)
    nodes: dict[str, CampaignNode] = {}
    for path, one in own.items():
        above = parent(path)
        if scopes is not None and above in own:
            reach[path] = reach[above] + scopes.get(own[above].campaign_id, 0)
        status = replace(one, **dict(zip(_COUNTS, totals[path], strict=True)))
        base = bases.get(one.campaign_id)
        ended, due_at = status.done + status.failed, due.get(path)
        pace = None
        if base is not None:
            pace = make_pace(ended - base.ended, at - base.at, status.unfinished)
        nodes[path] = CampaignNode(
            status=status,
            own=one,
            depth=0 if path == "/" else path.count("/"),
            agents=None if scopes is None else below[path] + reach[path],
            pace=pace and pace.not_before(None if due_at is None else due_at - at),
            why=_why(one, nodes[above].own if above in nodes else None, above),
        )
    return Tree(nodes, at)


def usual_levels(counts: Sequence[int]) -> int:
    """Return how many levels a page shows at first. counts: see `Tree.levels`."""
    return max(1, sum(count <= USUALLY_SHOWN for count in counts) - 1)


def parent(path: str) -> str | None:
    """Return the path above; None if there is none."""
    return None if path == "/" else path.rpartition("/")[0] or "/"


def _why(one: Status, above: Status | None, where: str | None) -> str:
    if one.state == "open":
        return ""
    if one.paused_why:
        return f"paused itself: {one.paused_why}"
    if above is not None and above.state == one.state:
        return f"{one.state} with {where}"
    return f"{one.state} by an operator"


def figures_of(tree: Tree, path: str, levels: int) -> dict[str, str]:
    """Return the texts that change on pages about a campaign, by the names of their elements."""
    shown, _ = tree.shown(path, levels)
    found = {"campaigns": str(len(shown))}
    for node in shown:
        found |= {f"{node.own.campaign_id}.{name}": text for name, text in node_texts(node).items()}
    return found


def node_texts(node: CampaignNode) -> Mapping[str, str]:
    """Return the shown texts of a campaign, by name, as the templates first show them."""
    status, pace = node.status, node.pace
    texts = {name: f"{getattr(status, name):,}" for name in (*STATUSES, "total")}
    final = status.total - status.unfinished
    return texts | {
        "share": f"{100 * final / status.total:.1f} %" if status.total else "",
        "final": str(final),
        "rate": "" if pace is None or status.finished else rate(pace.per_s),
        "eta": "" if pace is None or not status.unfinished else duration(pace.eta_s),
        "agents": "" if node.agents is None else f"{node.agents:,}",
    }
