"""Tasks that match a filter, found page by page, and actions on all of them.

A chunk is a page of tasks. Those that match are changed in a transaction of their own. So locks are
held for a moment, an interruption leaves nothing half-done, and the same call goes on from there.
The action checks under its locks that the state of a task still allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from taskq.campaign.filter_compiler import Filter, compiled
from taskq.db.access import Queries, in_chunks, task_rows
from taskq.db.address import Row
from taskq.model.errors import UsageError
from taskq.model.views import Status, TaskView

EXAMPLES: Final = 5
#: Tasks that one statement looks at.
PAGE: Final = 1_000

#: Changes tasks of a campaign, both given by their ids; returns how many it changed.
Action: TypeAlias = Callable[[int, list[int]], int]
OnBulk: TypeAlias = Callable[["BulkProgress"], None]


@dataclass(frozen=True, slots=True)
class Choice:
    """The tasks that a verb is for: those with these keys, those that match, or all.

    Raise `UsageError` for keys and a filter together. dry_run: count only. on_progress: called
    after each chunk, with a filter.
    """

    keys: Iterable[str] | None
    where: str | None
    below: bool = True
    dry_run: bool = False
    on_progress: OnBulk | None = None

    def __post_init__(self) -> None:
        if self.keys is not None and self.where is not None:
            raise UsageError("tasks are chosen by keys or by a filter, not by both")


@dataclass(frozen=True, slots=True)
class Page:
    """A page of tasks: those that match. looked: how many tasks the page looked at.

    rows: fields of `TaskView` and others; payloads are None unless asked for.
    """

    looked: int
    rows: list[Row]

    @property
    def tasks(self) -> list[int]:
        """The ids of the matching tasks, in order."""
        return [row["task_id"] for row in self.rows]


def pages(
    database: Queries,
    campaign: int,
    chosen: Filter,
    states: Iterable[str],
    *,
    payloads: bool = False,
) -> Iterator[Page]:
    """Look at the tasks of a campaign in some states, a page at a time.

    A task that changes meanwhile is judged as it stood when its page was read.
    """
    wanted = sorted(chosen.states.intersection(states))
    after = 0
    while wanted and (
        rows := database.rows(
            "find_tasks",
            campaign=campaign,
            filter=chosen.terms,
            states=wanted,
            parts=sorted(chosen.parts),
            payloads=payloads,
            after=after,
            limit=PAGE,
        )
    ):
        after = rows[-1]["task_id"]
        yield Page(rows[0]["looked"], [row for row in rows if row["matches"]])


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
    nodes: Sequence[Status],
    choice: Choice,
    states: Collection[str],
    action: Action,
    *,
    error_class: str | None = None,
) -> int:
    """Apply an action to the matching tasks of campaigns; return how many it changed.

    In a dry run the action counts only, and some tasks are kept as examples.
    """
    chosen = compiled(choice.where, error_class)
    progress = BulkProgress(sum(getattr(node, state) for node in nodes for state in states))
    for node in nodes:
        for page in pages(database, node.campaign_id, chosen, states):
            progress.looked += page.looked
            progress.matched += len(page.rows)
            if page.rows:
                progress.changed += action(node.campaign_id, page.tasks)
            if choice.dry_run:
                _add_examples(database, progress, node, page.tasks)
            if choice.on_progress is not None:
                choice.on_progress(progress)
    return progress.changed


def moving(database: Queries, name: str, /, **values: object) -> Action:
    """Return the action of a statement that moves tasks, such as `retry` or `cancel`."""

    def move(campaign: int, tasks: list[int]) -> int:
        return in_chunks(database, name, campaign=campaign, tasks=tasks, **values)

    return move


def counting(_: int, tasks: list[int]) -> int:
    """Count tasks: the action of a dry run that would change all that match."""
    return len(tasks)


def _add_examples(
    database: Queries, progress: BulkProgress, node: Status, tasks: list[int]
) -> None:
    shown = tasks[: EXAMPLES - len(progress.examples)]
    rows = task_rows(database, node.campaign_id, shown)
    progress.examples += tuple(TaskView(campaign=node.path, **row) for row in rows)
