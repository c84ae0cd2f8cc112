"""Actions on all tasks that match a filter, chunk by chunk.

A chunk is a page of tasks. Those that match are changed in a transaction of their own. So locks are
held for a moment, an interruption leaves nothing half-done, and the same call goes on from there.
The action checks under its locks that the state of a task still allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from taskq.campaign.filter_compiler import Filter
from taskq.campaign.matching import pages
from taskq.db.access import Queries
from taskq.model.views import Status, TaskView

EXAMPLES: Final = 5

#: Changes tasks of a campaign, both given by their ids; returns how many it changed.
Action: TypeAlias = Callable[[int, list[int]], int]
OnBulk: TypeAlias = Callable[["BulkProgress"], None]


@dataclass(slots=True)
class BulkProgress:
    """Progress of a bulk action. of: number of tasks to look at, as counted at the start.

    changed: in a dry run, tasks that would change. examples: in a dry run, the first that match.
    """

    of: int
    looked: int = 0
    matched: int = 0
    changed: int = 0
    examples: tuple[TaskView, ...] = ()


def in_bulk(
    database: Queries,
    campaigns: Iterable[Status],
    chosen: Filter,
    states: Collection[str],
    action: Action,
    *,
    dry_run: bool = False,
    on_progress: OnBulk | None = None,
) -> BulkProgress:
    """Apply an action to the matching tasks of campaigns.

    dry_run: the action counts only, and some tasks are kept as examples.
    """
    nodes = list(campaigns)
    progress = BulkProgress(sum(getattr(node, state) for node in nodes for state in states))
    for node in nodes:
        for page in pages(database, node.campaign_id, chosen, states):
            progress.looked += page.looked
            progress.matched += len(page.rows)
            if page.rows:
                progress.changed += action(node.campaign_id, page.tasks)
            if dry_run:
                _add_examples(database, progress, node, page.tasks)
            if on_progress is not None:
                on_progress(progress)
    return progress


def moving(database: Queries, name: str, /, **values: object) -> Action:
    """Return the action of a statement that moves tasks, such as `retry` or `cancel`."""

    def move(campaign: int, tasks: list[int]) -> int:
        (row,) = database.rows(
            name, campaign=campaign, tasks=tasks, after=0, limit=len(tasks), **values
        )
        return int(row["moved"])

    return move


def counting(_: int, tasks: list[int]) -> int:
    """Count tasks: the action of a dry run that would change all that match."""
    return len(tasks)


def _add_examples(
    database: Queries, progress: BulkProgress, node: Status, tasks: list[int]
) -> None:
    for task in tasks[: EXAMPLES - len(progress.examples)]:
        rows = database.rows(
            "tasks", campaign=node.campaign_id, status=None, after=task - 1, limit=1
        )
        progress.examples += tuple(TaskView(campaign=node.path, **row) for row in rows)
