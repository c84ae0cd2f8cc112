"""`taskq ls` and `taskq tree`: list campaigns with their counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import click

from taskq.model.seed import STATUSES
from taskq.model.views import Status
from taskq_cli.display.counts import percent_final, status_record, told_state
from taskq_cli.display.output import Column, write_records
from taskq_cli.shared import Invocation, limit_option, path_argument, reading_options


@click.command()
@path_argument(default="/")
@limit_option
@reading_options
def ls(invocation: Invocation, *, path: str, limit: int | None) -> None:
    """List the campaigns directly below PATH.

    The counts of each include all campaigns below it.

    Example:
      taskq ls /wisdom
    """
    with invocation.reader() as client:
        children = client.campaign(path).child_statuses()
    if invocation.output == "table":
        records = (_shown(one, one.path) for one in children)
        write_records("table", records, _COLUMNS, limit=limit)
    else:
        write_records(invocation.output, map(status_record, children), _COLUMNS, limit=limit)


@click.command()
@path_argument(default="/")
@limit_option
@reading_options
def tree(invocation: Invocation, *, path: str, limit: int | None) -> None:
    """Show the tree of campaigns at PATH.

    The counts of each are its own, without those below it.

    Example:
      taskq tree /wisdom
    """
    with invocation.reader() as client:
        nodes = client.campaign(path).tree()
    if invocation.output == "table":
        records = (_shown(node, name) for node, name in _branches(path, nodes))
        write_records("table", records, _COLUMNS, limit=limit)
    else:
        write_records(invocation.output, map(status_record, nodes), _COLUMNS, limit=limit)


_COLUMNS = [
    *map(Column, ("campaign", "state", "tasks", "final", *STATUSES)),
    Column("paused itself", gives_way=True),
]


def _shown(one: Status, name: str) -> dict[str, Any]:
    return {
        "campaign": name,
        "state": told_state(one),
        "tasks": f"{one.total:,}",
        "final": percent_final(one),
        "paused itself": one.paused_why,
    } | {status: f"{getattr(one, status):,}" for status in STATUSES if getattr(one, status)}


def _branches(top: str, nodes: Sequence[Status]) -> Iterator[tuple[Status, str]]:
    """Yield the nodes depth first, each with its name and the branch lines before it."""
    below: dict[str, list[Status]] = defaultdict(list)
    stack: list[tuple[Status, str, str]] = []
    for node in nodes:
        if node.path == top:
            stack.append((node, node.path, ""))
        else:
            below[node.path.rpartition("/")[0] or "/"].append(node)
    while stack:
        node, name, margin = stack.pop()
        yield node, name
        children = below[node.path]
        for child in reversed(children):
            last = child is children[-1]
            name = child.path.rpartition("/")[2]
            stack.append(
                (
                    child,
                    f"{margin}{'└── ' if last else '├── '}{name}",
                    margin + ("    " if last else "│   "),
                )
            )
