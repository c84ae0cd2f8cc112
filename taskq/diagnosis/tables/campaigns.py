"""Campaigns: columns of their counts, and of their pace and agents where a tree has read these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import Final

from taskq.diagnosis.campaign_tree import CampaignNode, Tree
from taskq.model.columns import Column, texts
from taskq.model.recipes import RecipeChange
from taskq.model.seed import STATUSES
from taskq.model.views import Status

_RATE: Final = (
    "Tasks that end: in the last ten minutes, or in a longer time if few do; empty if all have."
)
_ETA: Final = (
    "When all tasks that can end have ended; with a + some cannot, and the campaign says which."
)


#: Changes of a campaign's recipe.
CHANGES: Final[tuple[Column[RecipeChange], ...]] = (
    Column("change"),
    Column("recipe"),
    Column("when", lambda change: change.changed_at),
    Column("by", lambda change: change.changed_by),
    Column("what", lambda change: change.what, gives_way=True),
)


def state(status: Status) -> str:
    """Return the state for people: `finished` if a campaign is open and all its tasks ended."""
    return "finished" if status.state == "open" and status.finished else status.state


def _count(title: str, field: str = "", means: str = "") -> Column[Status]:
    value: Callable[[Status], object] = attrgetter(field or title)
    is_bad = value if title == "failed" else None
    return Column(title, value, "count", means, sparse=True, is_bad=is_bad)


STATUS: Final[tuple[Column[Status], ...]] = (
    Column("campaign", lambda campaign: campaign.path),
    Column("state", state),
    _count("tasks", "total"),
    Column(
        "final", lambda campaign: campaign.final_share, means="Share of tasks that change no more."
    ),
    *map(_count, STATUSES),
    Column("paused itself", lambda campaign: campaign.paused_why, gives_way=True),
)


def _of_status(column: Column[Status]) -> Column[CampaignNode]:
    """Return a column of counts as one of a campaign in the tree, with all below it."""
    is_bad = column.is_bad
    return Column(
        column.title,
        lambda node: column.of(node.status),
        column.kind,
        column.means,
        gives_way=column.gives_way,
        sparse=column.sparse,
        is_bad=None if is_bad is None else lambda node: is_bad(node.status),
    )


CAMPAIGNS: Final[tuple[Column[CampaignNode], ...]] = (
    *map(_of_status, STATUS[:-1]),
    Column(
        "rate",
        lambda campaign: None if campaign.status.finished else campaign.forecast.per_s,
        "rate",
        _RATE,
    ),
    Column(
        "eta",
        lambda campaign: campaign.forecast.short() if campaign.status.unfinished else "",
        means=_ETA,
    ),
    Column("agents", kind="count", means="Those that serve it, or a campaign above or below."),
    _of_status(STATUS[-1]),
)


def figures(node: CampaignNode) -> dict[str, str]:
    """Return the texts of a campaign by title, and `ended`: its tasks that change no more."""
    return texts(CAMPAIGNS, node) | {"ended": f"{node.status.final:,}"}


def figures_of(tree: Tree, path: str, levels: int) -> dict[str, str]:
    """Return the texts that change on pages about a campaign, by the names of their elements."""
    shown, _ = tree.shown(path, levels)
    found = {"campaigns": str(len(shown))}
    for node in shown:
        found |= {f"{node.own.campaign_id}.{name}": text for name, text in figures(node).items()}
    return found


def named(names: Callable[[Status], str]) -> list[Column[Status]]:
    """Return the columns of counts with other names of campaigns, such as branches of a tree."""
    return [replace(STATUS[0], value=names), *STATUS[1:]]
