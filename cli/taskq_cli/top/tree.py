"""The tree of campaigns on the full screen: its table, and a line about the one that is chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from taskq.diagnosis.campaign_tree import CampaignNode
from taskq.diagnosis.tables.campaigns import figures, state
from taskq.model.words import counted
from taskq_cli.display import render
from taskq_cli.display.overview import counts
from taskq_cli.display.text import one_line
from taskq_cli.top.panel import Opening, Panel, Row

#: From so many columns of a terminal on, the tree has one more.
WIDE: Final = 100
#: Width of a bar of tasks by status, in a narrow tree and in a wide one.
_BARS: Final = (6, 12)
#: Between two columns of a table.
_PADDING: Final = 2
#: Columns of the tree after the campaigns.
_TREE: Final = ("final", "waiting", "working", "failed", "rate", "eta", "agents")


def tree_panel(nodes: Sequence[CampaignNode], width: int, opens: Callable[[str], Opening]) -> Panel:
    """Return campaigns as a table that fits a terminal of this width."""
    titles = [title for title in _TREE if width >= WIDE or title != "waiting"]
    bar = _BARS[width >= WIDE]
    least = min((node.depth for node in nodes), default=0)
    others = []
    for node in nodes:
        its = figures(node)
        its["final"] = f"{render.bar(counts(node.status), bar)} {its['final']:>7}".strip()
        if node.why or node.status.finished:
            its["eta"] = its["state"]
        others.append([its[title] for title in titles])
    widths = [max(map(len, column)) for column in zip(titles, *others, strict=True)]
    room = max(width - sum(widths) - _PADDING * (len(widths) + 1), render.MIN_WIDTH)
    rows = []
    for node, cells in zip(nodes, others, strict=True):
        path, indent = node.status.path, "  " * (node.depth - least)
        name = path if not indent else path.rpartition("/")[2]
        label = indent + render.shortened(one_line(name), max(room - len(indent), 1))
        rows.append(Row(path, [label.ljust(room), *cells], opens(path)))
    return Panel(titles=["campaign", *titles], rows=rows)


def tree_line(node: CampaignNode) -> str:
    """Return a line about the campaign that is chosen in the tree."""
    status = node.status
    parts = [f"{status.path}  {state(status)}", f"{counted(status.total, 'task')}"]
    parts += [f"{status.delayed:,} delayed"] if status.delayed else []
    if status.unfinished and (ends := node.forecast.text()):
        parts.append(f"ETA {ends}")
    if node.why:
        parts.append(node.why)
    return one_line("; ".join(parts))
