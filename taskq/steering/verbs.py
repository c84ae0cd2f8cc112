"""Verbs on all tasks that match a filter, in several campaigns; see the methods of `Campaign`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from taskq.db.connections import Database, Row
from taskq.errors import UsageError
from taskq.steering.bulk import OnBulk, in_bulk, moving
from taskq.steering.compiler import compiled
from taskq.steering.matching import pages
from taskq.steering.priorities import to_priority
from taskq.steering.syntax import STATES
from taskq.views import Status, TaskView

UNFINISHED: Final = ("waiting", "delayed", "working")
NOT_BEGUN: Final = ("waiting", "delayed")


def check_choice(keys: object, where: str | None, *, dry_run: bool) -> None:
    """Raise `UsageError` if tasks are chosen in two ways, or named in a dry run."""
    if keys is not None and (where is not None or dry_run):
        raise UsageError("tasks are chosen by keys or by a filter; keys need no dry run")


def retry(
    database: Database,
    campaigns: Iterable[Status],
    where: str | None,
    status: str,
    error_class: str | None,
    *,
    dry_run: bool,
    on_progress: OnBulk | None,
) -> int:
    """Retry matching tasks; return how many, in a dry run how many would be."""
    if status not in {"failed", "cancelled"}:
        raise UsageError("only failed and cancelled tasks can be retried")
    chosen = compiled(where, error_class)
    action = moving(database, "retry", status=status, error_class=error_class)
    done = in_bulk(
        database, campaigns, chosen, [status], None if dry_run else action, on_progress=on_progress
    )
    return done.matched if dry_run else done.changed


def cancel(
    database: Database,
    campaigns: Iterable[Status],
    where: str | None,
    *,
    dry_run: bool,
    on_progress: OnBulk | None,
) -> int:
    """Cancel matching tasks; return how many, in a dry run how many would be."""
    action = None if dry_run else moving(database, "cancel")
    done = in_bulk(
        database, campaigns, compiled(where), UNFINISHED, action, on_progress=on_progress
    )
    return done.matched if dry_run else done.changed


def set_priority(
    database: Database,
    campaigns: Iterable[Status],
    where: str | None,
    priority: int,
    *,
    dry_run: bool,
    on_progress: OnBulk | None,
) -> int:
    """Change the priority of matching tasks; return of how many, in a dry run how many match."""
    action = to_priority(database, priority)
    done = in_bulk(
        database,
        campaigns,
        compiled(where),
        NOT_BEGUN,
        None if dry_run else action,
        on_progress=on_progress,
    )
    return done.matched if dry_run else done.changed


def tasks(database: Database, campaign: int, where: str, status: str | None) -> Iterator[TaskView]:
    """Return the matching tasks of a campaign in one status, or all, in the order of seeding."""
    states = STATES if status is None else (status,)
    found = pages(database, campaign, compiled(where), states, payloads=True)
    return (
        TaskView(**{name: row[name] for name in TaskView.__slots__})
        for page in found
        for row in page.rows
    )


def results(database: Database, campaign: int, where: str) -> Iterator[Row]:
    """Return the rows of the results of matching tasks, in the order of seeding."""
    found = pages(database, campaign, compiled(where), ["done"])
    return (
        row
        for page in found
        if page.rows
        for row in database.rows("results_of", campaign=campaign, tasks=page.tasks)
    )
