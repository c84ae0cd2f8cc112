"""Verbs on all tasks that match a filter, in several campaigns; see the methods of `Campaign`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from taskq.campaign.bulk import OnBulk, counting, in_bulk, moving, pages
from taskq.campaign.filter_compiler import compiled
from taskq.campaign.priorities import to_priority
from taskq.db.access import Queries
from taskq.db.address import Row
from taskq.model.errors import UsageError
from taskq.model.seed import NOT_BEGUN, STATUSES, UNFINISHED
from taskq.model.views import Status, TaskView


def check_choice(keys: object, where: str | None) -> None:
    """Raise `UsageError` if tasks are chosen in two ways."""
    if keys is not None and where is not None:
        raise UsageError("tasks are chosen by keys or by a filter, not by both")


def retry(
    database: Queries,
    campaigns: Iterable[Status],
    where: str,
    status: str,
    error_class: str | None,
    *,
    dry_run: bool,
    on_progress: OnBulk | None,
) -> int:
    """Retry matching tasks; return how many, in a dry run how many it would retry."""
    if status not in {"failed", "cancelled"}:
        raise UsageError("only failed and cancelled tasks can be retried")
    chosen = compiled(where, error_class)
    action = moving(database, "retry", status=status, error_class=error_class, dry_run=dry_run)
    return in_bulk(
        database, campaigns, chosen, [status], action, dry_run=dry_run, on_progress=on_progress
    ).changed


def cancel(
    database: Queries,
    campaigns: Iterable[Status],
    where: str,
    *,
    dry_run: bool,
    on_progress: OnBulk | None,
) -> int:
    """Cancel matching tasks; return how many, in a dry run how many it would cancel."""
    chosen = compiled(where)
    action = counting if dry_run else moving(database, "cancel", begun=True)
    return in_bulk(
        database, campaigns, chosen, UNFINISHED, action, dry_run=dry_run, on_progress=on_progress
    ).changed


def unfinished(database: Queries, campaign: int, tasks: Iterable[int]) -> int:
    """Return how many of these tasks are not final."""
    return sum(
        row["status"] in UNFINISHED
        for task in set(tasks)
        for row in database.rows("tasks", campaign=campaign, status=None, after=task - 1, limit=1)
    )


def set_priority(
    database: Queries,
    campaigns: Iterable[Status],
    where: str | None,
    priority: int,
    *,
    dry_run: bool,
    on_progress: OnBulk | None,
) -> int:
    """Change the priority of matching tasks; return how many had another, or match (dry run)."""
    chosen, change = compiled(where), to_priority(database, priority)
    action = counting if dry_run else change
    return in_bulk(
        database, campaigns, chosen, NOT_BEGUN, action, dry_run=dry_run, on_progress=on_progress
    ).changed


def tasks(
    database: Queries, campaigns: Iterable[tuple[int, str]], where: str, status: str | None
) -> Iterator[TaskView]:
    """Return matching tasks in one status, or all, campaign by campaign in the order of seeding.

    campaigns: ids and paths.
    """
    chosen, states = compiled(where), STATUSES if status is None else (status,)
    return (
        TaskView(campaign=path, **{name: row[name] for name in TaskView.__slots__ if name in row})
        for campaign, path in campaigns
        for page in pages(database, campaign, chosen, states, payloads=True)
        for row in page.rows
    )


def results(database: Queries, campaigns: Iterable[tuple[int, str]], where: str) -> Iterator[Row]:
    """Yield rows of results of matching tasks, with the path of their campaign; see `tasks`."""
    chosen = compiled(where)
    return (
        {"campaign": path, **row}
        for campaign, path in campaigns
        for page in pages(database, campaign, chosen, ["done"])
        if page.rows
        for row in database.rows("results_of", campaign=campaign, tasks=page.tasks)
    )
