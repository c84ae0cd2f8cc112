"""Verbs of `Campaign` that add, move or remove tasks; its methods describe the parameters."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Final

from taskq.campaign.bulk import Action, Choice, counting, in_bulk, moving, pages
from taskq.campaign.filter_compiler import compiled
from taskq.campaign.known_fields import warn_of_placeholders
from taskq.campaign.priorities import to_priority
from taskq.campaign.subtree import Subtree
from taskq.db.access import Queries, chunks, in_chunks
from taskq.db.acts import begin_act
from taskq.db.stored_spec import spec_body
from taskq.ingest import key_conflicts, seeding
from taskq.ingest.key_conflicts import OnConflict, comparable
from taskq.ingest.seeding import Conflicts, Seedable, SeedCount
from taskq.ingest.sources import BadLine
from taskq.model.campaign_spec import CampaignSpec
from taskq.model.errors import Conflict, KeyConflict, NotFound, UsageError
from taskq.model.seed import NOT_BEGUN, RETRIABLE, UNFINISHED, Seed
from taskq.model.views import Status
from taskq_agent.protocol import Input

#: What an act on tasks that were given by their keys is recorded with.
BY_KEY: Final = "by key"


def seed(
    subtree: Subtree,
    records: Iterable[Seedable],
    *,
    conflicts: Conflicts,
    on_bad: Callable[[BadLine], None] | None,
    on_progress: Callable[[SeedCount], None] | None,
) -> SeedCount:
    """Add tasks; warn after the first chunk if none has a field that the program needs."""
    database, is_first = subtree.database, True

    def after_chunk(so_far: SeedCount) -> None:
        nonlocal is_first
        if is_first:
            is_first = False
            warn_of_placeholders(database, subtree.path)
        if on_progress is not None:
            on_progress(so_far)

    return seeding.seed(
        database,
        subtree.campaign_id,
        subtree.path,
        records,
        conflicts=conflicts,
        on_bad=on_bad,
        on_progress=after_chunk,
    )


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


def cancel(subtree: Subtree, choice: Choice) -> int:
    """Cancel tasks; all of them with their campaign."""
    database, dry_run = subtree.database, choice.dry_run
    if choice.where is not None:
        action: Action = counting
        if not dry_run:
            move = moving(database, "cancel", begun=True)
            action = _saying(subtree, "cancel", [choice.where], move)
        nodes = subtree.statuses(below=choice.below)
        return in_bulk(database, nodes, choice, UNFINISHED, action)
    if choice.keys is not None:
        tasks = subtree.task_ids(choice.keys)
        if dry_run:
            return _unfinished(subtree, tasks)
        begin_act(database, subtree.path, "cancel", BY_KEY)
        return _cancel_tasks(database, subtree.campaign_id, tasks)
    if dry_run:
        return sum(status.unfinished for status in subtree.statuses(below=choice.below))
    if not choice.below:
        return _cancel_tasks(database, subtree.campaign_id, None)
    set_status(subtree, "cancelled")
    campaigns = database.value("to_cancel", path=subtree.path)
    return sum(_cancel_tasks(database, campaign, None) for campaign in campaigns)


def change(subtree: Subtree, spec: CampaignSpec, inputs: Mapping[str, Input] | None) -> None:
    """Change settings. A shorter backoff is also that of delayed tasks."""
    database, before, after = subtree.database, subtree.row()["settings"], spec.retry
    database.value("change_campaign", path=subtree.path, spec=spec_body(spec, inputs))
    if after.backoff_s >= before["backoff_s"] and after.backoff_max_s >= before["backoff_max_s"]:
        return
    (counts,) = database.rows("counts", path=subtree.path, depth=0)
    if counts["delayed"]:  # to find them, it goes through all rows of tasks
        deque(chunks(database, "shorten_delays", campaign=subtree.campaign_id), maxlen=0)


def status_to_retry(status: str | None, where: str | None) -> str:
    """Return the status of tasks to retry: the given one, the only one that matches, or failed."""
    if status is None and where is not None:
        matching = compiled(where).states.intersection(RETRIABLE)
        status = next(iter(matching)) if len(matching) == 1 else None
    return status or "failed"


def retry(subtree: Subtree, choice: Choice, status: str | None, error_class: str | None) -> int:
    """Retry tasks; all of them of campaigns not cancelled."""
    database, status = subtree.database, status_to_retry(status, choice.where)
    words = {"status": status, "error_class": error_class, "dry_run": choice.dry_run}
    what = [status, error_class, choice.where, None if choice.keys is None else BY_KEY]
    if choice.where is None:
        tasks = None if choice.keys is None else subtree.task_ids(choice.keys)
        campaigns = [subtree.campaign_id]
        if tasks is None and choice.below:
            campaigns += [
                below.campaign_id
                for below in subtree.tree()[1:]
                if below.state != "cancelled" and getattr(below, status)
            ]
        if not choice.dry_run:
            begin_act(database, subtree.path, "retry", *what)
        return sum(
            in_chunks(database, "retry", campaign=campaign, tasks=tasks, **words)
            for campaign in campaigns
        )
    if status not in RETRIABLE:
        raise UsageError(
            f"only {', '.join(RETRIABLE[:-1])} and {RETRIABLE[-1]} tasks can be retried"
        )
    own, *others = subtree.statuses(below=choice.below)
    nodes = [own, *(status for status in others if status.state != "cancelled")]
    action = moving(database, "retry", **words)
    if not choice.dry_run:
        action = _saying(subtree, "retry", what, action)
    return in_bulk(database, nodes, choice, [status], action, error_class=error_class)


def set_priority(subtree: Subtree, choice: Choice, priority: int) -> int:
    """Change the priority of matching tasks; return how many had another, or match (dry run)."""
    change = to_priority(subtree.database, priority)
    nodes = subtree.statuses(below=choice.below)
    action = _saying(subtree, "prioritise", [f"{priority}", choice.where], change)
    action = counting if choice.dry_run else action
    return in_bulk(subtree.database, nodes, choice, NOT_BEGUN, action)


def remove(subtree: Subtree, on_progress: Callable[[int, int], None]) -> int:
    """Cancel, then delete the tasks of all campaigns below, and the campaigns, from the leaves.

    What others remove meanwhile is left to them; a campaign that is made anew at its path stays.
    """
    if subtree.path == "/":
        raise Conflict("the root campaign cannot be removed; name those below it")
    database, removed = subtree.database, 0
    database.rows("begin_removal", path=subtree.path)
    campaigns: list[Status] = []
    with suppress(NotFound):
        cancel(subtree, Choice(None, None))
        campaigns = subtree.tree()
    of = sum(campaign.total for campaign in campaigns)
    for campaign in reversed(campaigns):
        with suppress(NotFound):
            for gone in chunks(database, "remove_tasks", campaign=campaign.campaign_id):
                removed += gone
                on_progress(removed, max(of, removed))
            row = database.row("campaign", path=campaign.path)
            if row is not None and row["campaign_id"] == campaign.campaign_id:
                database.rows("remove_campaign", path=campaign.path)
    return removed


def _saying(subtree: Subtree, verb: str, what: Sequence[str | None], action: Action) -> Action:
    """Return an action that says once, before it moves the first tasks, by which command."""
    said = False

    def act(campaign: int, tasks: list[int]) -> int:
        nonlocal said
        if not said:
            begin_act(subtree.database, subtree.path, verb, *what)
            said = True
        return action(campaign, tasks)

    return act


def _cancel_tasks(database: Queries, campaign: int, tasks: list[int] | None) -> int:
    return in_chunks(database, "cancel", campaign=campaign, tasks=tasks, begun=True)


def _unfinished(subtree: Subtree, tasks: Iterable[int]) -> int:
    """Return how many of these tasks are not final."""
    database, among = subtree.database, [sorted(set(tasks))]
    found = pages(database, subtree.campaign_id, compiled(None), UNFINISHED, among=among)
    return sum(len(page.rows) for page in found)
