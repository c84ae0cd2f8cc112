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
from taskq.campaign.known_fields import misspelt
from taskq.db.access import Queries, in_chunks, task_ids, task_rows
from taskq.db.catalogue import array
from taskq.db.rows import Row
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
    among: Iterable[Sequence[int]] | None = None,
) -> Iterator[Page]:
    """Look at the tasks of a campaign in some states, a page at a time.

    A task that changes meanwhile is judged as it stood when its page was read. among: look only at
    tasks with these ids. Without it, if the filter names keys, only at tasks with these keys.
    """
    wanted = sorted(chosen.states.intersection(states))
    if among is None and chosen.keys is not None and wanted:
        among = [sorted(task_ids(database, campaign, chosen.keys).values())]

    def look(tasks: Sequence[int] | None, after: int) -> list[Row]:
        return database.rows(
            "find_tasks",
            campaign=campaign,
            filter=chosen.terms,
            states=wanted,
            parts=sorted(chosen.parts),
            payloads=payloads,
            tasks=None if tasks is None else array(tasks),
            after=after,
            limit=PAGE,
        )

    if among is not None:
        for tasks in among:
            for start in range(0, len(tasks) if wanted else 0, PAGE):
                if rows := look(tasks[start : start + PAGE], 0):
                    yield _page(rows)
        return
    after = 0
    while wanted and (rows := look(None, after)):
        after = rows[-1]["task_id"]
        yield _page(rows)


def _page(rows: list[Row]) -> Page:
    return Page(rows[0]["looked"], [row for row in rows if row["matches"]])


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

    In a dry run the action counts only, and some tasks are kept as examples. Raise `UsageError`
    before anything is changed if no task has a field of the filter, as far as `known_fields` looks.
    """
    chosen = compiled(choice.where, error_class)
    campaigns = [node.campaign_id for node in nodes]
    odd = misspelt(database, nodes[0].path, campaigns, chosen) if nodes else None
    if odd is not None and (refusal := odd.refusal()) is not None:
        raise UsageError(f"{refusal}; nothing was changed")
    progress = BulkProgress(sum(getattr(node, state) for node in nodes for state in states))
    if chosen.keys is not None:
        progress.of = min(progress.of, len(chosen.keys) * len(nodes))
    for node in _with_any(nodes, states):
        for page in pages(database, node.campaign_id, chosen, states):
            progress.looked += page.looked
            progress.matched += len(page.rows)
            if page.rows:
                progress.changed += action(node.campaign_id, page.tasks)
            if choice.dry_run:
                _add_examples(database, progress, node, page.tasks)
            if choice.on_progress is not None:
                choice.on_progress(progress)
    if odd and not progress.matched:
        raise UsageError(f"no task matches: {odd}; nothing was changed")
    return progress.changed


def _with_any(nodes: Sequence[Status], states: Collection[str]) -> Iterator[Status]:
    """Yield the first of some campaigns, and of the others those that have tasks in some states.

    A queue may have had very many campaigns, each of which would cost a statement.
    """
    for place, node in enumerate(nodes):
        if not place or any(getattr(node, state) for state in states):
            yield node


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
