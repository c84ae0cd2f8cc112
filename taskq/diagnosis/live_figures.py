"""Figures of campaigns as texts, the same for a page and for its live updates."""

from __future__ import annotations

from collections.abc import Mapping

from taskq.diagnosis.campaign_tree import CampaignNode, Tree
from taskq.model.seed import STATUSES
from taskq.model.words import duration, rate


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
