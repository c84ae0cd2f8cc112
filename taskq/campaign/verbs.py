"""Verbs of `Campaign` that add, move or remove tasks; its methods describe the parameters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path

from taskq.campaign.bulk import OnBulk, counting, in_bulk, moving
from taskq.campaign.filter_compiler import compiled
from taskq.campaign.priorities import to_priority
from taskq.campaign.subtree import Subtree
from taskq.db.access import chunks, in_chunks
from taskq.files.blob_store import BlobStore
from taskq.files.blobs import open_blobs
from taskq.ingest import key_conflicts, seeding
from taskq.ingest.key_conflicts import OnConflict, comparable
from taskq.model.errors import Conflict, KeyConflict, UsageError
from taskq.model.seed import NOT_BEGUN, UNFINISHED, Seed
from taskq_agent.protocol import Input
from taskq_agent.text import is_unicode


def add_input(subtree: Subtree, path: Path, name: str | None, blobs: BlobStore | None) -> Input:
    """Store a file, and give it to the tasks of a campaign."""
    if name is None and not is_unicode(path.name):
        raise UsageError(f"{path.name!r} is not UTF-8: name it (--name), so that tasks can")
    digest, size = (open_blobs(subtree.database) if blobs is None else blobs).put(path)
    name = path.name if name is None else name
    subtree.database.value("add_input", path=subtree.path, name=name, digest=digest, size=size)
    return Input(digest, size)


def add(subtree: Subtree, seed: Seed, on_conflict: OnConflict) -> bool:
    """Add one task in one round trip; return whether it was added."""
    key_conflicts.check_choice(on_conflict)
    task = seeding.task_json(seed.encoded())
    words = {"path": subtree.path, "tasks": f"[{task}]", "on_conflict": on_conflict}
    try:
        return bool(subtree.database.value("submit", **words))
    except KeyConflict as error:
        raise key_conflicts.submit_conflict(error) from error


def submit(subtree: Subtree, seed: Seed, on_conflict: OnConflict) -> str:
    """Add one task, unless it is there; return its key."""
    add(subtree, seed, on_conflict)
    stored, text, _ = seed.encoded()
    if on_conflict != "keep-both":
        return stored
    wanted = comparable(text)  # stored under the first key that has no other payload
    names = (stored if number == 1 else f"{stored}#{number}" for number in count(1))
    stored_as = ((name, json.dumps(subtree.task(name).payload)) for name in names)
    return next(name for name, its in stored_as if comparable(its) == wanted)


def set_status(subtree: Subtree, status: str) -> bool:
    """Pause, open or cancel a campaign; return whether its status was another one."""
    return bool(subtree.database.value("set_status", path=subtree.path, status=status))


def cancel(
    subtree: Subtree,
    keys: Iterable[str] | None,
    where: str | None,
    *,
    below: bool,
    dry_run: bool,
    on_progress: OnBulk | None,
) -> int:
    """Cancel tasks: those with these keys, those that match, or all with their campaign."""
    check_choice(keys, where)
    if where is not None:
        chosen, database = compiled(where), subtree.database
        action = counting if dry_run else moving(database, "cancel", begun=True)
        return in_bulk(
            database,
            subtree.statuses(below=below),
            chosen,
            UNFINISHED,
            action,
            dry_run=dry_run,
            on_progress=on_progress,
        ).changed
    if keys is not None:
        tasks = subtree.task_ids(keys)
        return _unfinished(subtree, tasks) if dry_run else _cancel_tasks(subtree, tasks)
    if dry_run:
        return sum(one.unfinished for one in subtree.statuses(below=below))
    if not below:
        return _cancel_tasks(subtree, None)
    set_status(subtree, "cancelled")
    return sum(
        _cancel_tasks(Subtree(subtree.database, one.campaign_id, one.path), None)
        for one in subtree.tree()
    )


def retry(
    subtree: Subtree,
    status: str,
    error_class: str | None,
    keys: Iterable[str] | None,
    where: str | None,
    *,
    below: bool,
    dry_run: bool,
    on_progress: OnBulk | None,
) -> int:
    """Retry tasks: those with these keys, those that match, or all of campaigns not cancelled."""
    check_choice(keys, where)
    words = {"status": status, "error_class": error_class, "dry_run": dry_run}
    if where is None:
        tasks = None if keys is None else subtree.task_ids(keys)
        campaigns = [subtree.campaign_id]
        if keys is None and below:
            campaigns += [one.campaign_id for one in subtree.tree()[1:] if one.state != "cancelled"]
        return sum(
            in_chunks(subtree.database, "retry", campaign=campaign, tasks=tasks, **words)
            for campaign in campaigns
        )
    if status not in {"failed", "cancelled", "delayed"}:
        raise UsageError("only failed, cancelled and delayed tasks can be retried")
    own, *others = subtree.statuses(below=below)
    return in_bulk(
        subtree.database,
        [own, *(one for one in others if one.state != "cancelled")],
        compiled(where, error_class),
        [status],
        moving(subtree.database, "retry", **words),
        dry_run=dry_run,
        on_progress=on_progress,
    ).changed


def set_priority(
    subtree: Subtree,
    priority: int,
    where: str | None,
    *,
    below: bool,
    dry_run: bool,
    on_progress: OnBulk | None,
) -> int:
    """Change the priority of matching tasks; return how many had another, or match (dry run)."""
    chosen, change = compiled(where), to_priority(subtree.database, priority)
    return in_bulk(
        subtree.database,
        subtree.statuses(below=below),
        chosen,
        NOT_BEGUN,
        counting if dry_run else change,
        dry_run=dry_run,
        on_progress=on_progress,
    ).changed


def remove(subtree: Subtree, on_progress: Callable[[int, int], None]) -> int:
    """Cancel, then delete the tasks of all campaigns below, and the campaigns, from the leaves."""
    if subtree.path == "/":
        raise Conflict("the root campaign cannot be removed; name those below it")
    cancel(subtree, None, None, below=True, dry_run=False, on_progress=None)
    campaigns, removed = subtree.tree(), 0
    of = sum(one.total for one in campaigns)
    for one in reversed(campaigns):
        for gone in chunks(subtree.database, "remove_tasks", campaign=one.campaign_id):
            removed += gone
            on_progress(removed, max(of, removed))
        subtree.database.rows("remove_campaign", path=one.path)
    return removed


def check_choice(keys: object, where: str | None) -> None:
    """Raise `UsageError` if tasks are chosen in two ways."""
    if keys is not None and where is not None:
        raise UsageError("tasks are chosen by keys or by a filter, not by both")


def _cancel_tasks(subtree: Subtree, tasks: list[int] | None) -> int:
    return in_chunks(
        subtree.database, "cancel", campaign=subtree.campaign_id, tasks=tasks, begun=True
    )


def _unfinished(subtree: Subtree, tasks: Iterable[int]) -> int:
    """Return how many of these tasks are not final."""
    return sum(
        row["status"] in UNFINISHED
        for task in set(tasks)
        for row in subtree.database.rows(
            "tasks", campaign=subtree.campaign_id, status=None, after=task - 1, limit=1
        )
    )
