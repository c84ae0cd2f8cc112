"""Verbs of `Campaign` that read results, tasks and failures, or wait; its methods describe them."""

from __future__ import annotations

import heapq
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from taskq.campaign.bulk import PAGE, Choice, pages
from taskq.campaign.filter_compiler import Filter, compiled
from taskq.campaign.known_fields import misspelt
from taskq.campaign.subtree import Subtree
from taskq.db.rows import Row
from taskq.files.blob_store import BlobStore
from taskq.files.large_results import Fetching
from taskq.model.errors import ResultLost, UsageError
from taskq.model.given import names
from taskq.model.pauses import sleep
from taskq.model.retry_policy import RetryPolicy
from taskq.model.seed import STATUSES
from taskq.model.views import FailureCause, Hedges, Result, SecondAttempt, Status, TaskView
from taskq.results import following
from taskq.results.cursor import Cursor
from taskq.results.following import WithdrawnResult

if TYPE_CHECKING:  # what few commands need is imported when it is used
    from taskq.diagnosis.reasons import Explanation
    from taskq.files.fetching import Fetched

WAIT_S: Final = 0.5
HEDGES: Final = 10
#: From a warning's frame to that of the caller of `Campaign`.
_CALLER: Final = 5


def results(
    subtree: Subtree,
    where: str | None,
    since: Cursor | datetime | None,
    *,
    below: bool,
    fetching: Fetching,
) -> Iterator[Result]:
    """Iterate over results: all, those that match or are new, or those that a cursor lacks."""
    if isinstance(since, Cursor):
        if where is not None:
            raise UsageError("results since a cursor take no filter: leave out where")
        since.begin(subtree.path, subtree.row()["created_at"])
        rows = following.look(subtree.database, subtree.nodes(below=below), since)
    elif where is not None or since is not None:
        if since is not None and since.tzinfo is None:
            raise UsageError(
                f"{since} has no time zone; give one, such as datetime.now(timezone.utc)"
            )
        rows = _chosen_results(subtree, where, since, below=below)
    else:
        rows = subtree.pages("results", below=below)
    return _as_results(rows, fetching)


def follow(
    subtree: Subtree,
    since: Cursor | None,
    *,
    below: bool,
    fetching: Fetching,
    on_page: Callable[[], object],
) -> Iterator[Result]:
    """Iterate over results as they come, until no task is unfinished."""
    cursor = Cursor() if since is None else since
    cursor.begin(subtree.path, subtree.row()["created_at"])

    def counts() -> list[Status]:
        return subtree.statuses(below=below)

    return _as_results(following.follow(subtree.database, counts, cursor, on_page), fetching)


def _as_results(rows: Iterable[Row], fetching: Fetching) -> Iterator[Result]:
    for row in rows:
        view = WithdrawnResult if "withdrawn" in row else Result
        yield view(**fetching.of(row))


def fetch_files(
    subtree: Subtree,
    to: Path,
    chosen: Iterable[Result | str],
    blobs: BlobStore | None,
    on_lost: Callable[[ResultLost], None] | None,
) -> Fetched:
    """Write the output files of results, or of tasks with these keys, to a folder."""
    from taskq.files.archives import Outputs  # noqa: PLC0415
    from taskq.files.fetching import fetch  # noqa: PLC0415

    each = names("tasks", chosen)
    found = (
        wanted if isinstance(wanted, Result) else subtree.results_of([wanted])[0] for wanted in each
    )
    campaigns = {subtree.path: subtree.campaign_id}
    campaigns |= {path: campaign for campaign, path in subtree.nodes(below=True)}
    return fetch(Outputs(subtree.database, blobs), campaigns, found, to, on_lost=on_lost)


def tasks(subtree: Subtree, status: str | None, choice: Choice) -> Iterator[TaskView]:
    """Iterate over tasks in one status, or all: those chosen."""
    if choice.keys is None and choice.where is None:
        rows = subtree.pages("tasks", below=choice.below, status=status)
        return (TaskView(**row) for row in rows)
    chosen, states = compiled(choice.where), STATUSES if status is None else (status,)
    nodes, among = [(subtree.campaign_id, subtree.path)], None
    if choice.keys is None:
        nodes = _checked(subtree, chosen, below=choice.below)
    else:
        among = [sorted(set(subtree.task_ids(choice.keys)))]
    return (
        TaskView(campaign=path, **{name: row[name] for name in TaskView.__slots__ if name in row})
        for campaign, path in nodes
        for page in pages(subtree.database, campaign, chosen, states, payloads=True, among=among)
        for row in page.rows
    )


def explain(subtree: Subtree, key: str | None, *, whole: bool) -> Explanation:
    """Explain why tasks do not run, or not faster; key: why this one does not."""
    from taskq.diagnosis.explaining import explained  # noqa: PLC0415
    from taskq.diagnosis.facts import MAX_CLASSES, read_facts  # noqa: PLC0415
    from taskq.diagnosis.fleet import Findings, Fleet  # noqa: PLC0415
    from taskq.diagnosis.odd_readings import OddReadings  # noqa: PLC0415
    from taskq.diagnosis.task_rules import explain_task  # noqa: PLC0415

    if key is None:
        return explained(subtree.database, subtree.path, whole=whole)
    task, retries = subtree.task(key), RetryPolicy.from_settings(subtree.row()["settings"])
    facts = read_facts(subtree.database, subtree.path, looks=False, whole=whole)
    if task.status == "failed":  # whose fault that is; hosts and results say nothing about it
        verdicts = Fleet(subtree.database).failures(subtree.path, limit=MAX_CLASSES)
        facts = replace(facts, findings=Findings([], [], verdicts, OddReadings()))
    return explain_task(task, subtree.attempts(key), retries, facts)


def hedges(subtree: Subtree, *, below: bool) -> Hedges:
    """Return counts of second attempts, and those at work."""
    (row,) = subtree.database.rows("hedges", path=subtree.path, below=below, most=HEDGES)
    longest = [SecondAttempt(**hedge) for hedge in row.pop("longest")]
    return Hedges(**row, longest=longest)


def failure_classes(subtree: Subtree, *, below: bool) -> dict[str, int]:
    """Return the number of failed and lost attempts by error class, most frequent first."""
    found: Counter[str] = Counter()
    for campaign, _ in subtree.failing(below=below):
        for row in subtree.database.rows("failure_classes", campaign=campaign):
            found[row["error_class"]] += row["attempts"]
    return dict(found.most_common())


def failure_causes(subtree: Subtree, limit: int, *, below: bool) -> list[FailureCause]:
    """Return failed, lost and refused attempts grouped by cause, most frequent first."""
    causes = (
        FailureCause(campaign=path, **row)
        for campaign, path in subtree.failing(below=below)
        for row in subtree.database.rows("failure_causes", campaign=campaign, limit=limit)
    )
    return heapq.nlargest(limit, causes, key=attrgetter("attempts"))


def wait(path: str, status: Callable[[], Status], timeout_s: float | None) -> Status:
    """Ask for the status of a campaign until no task is unfinished; raise `TimeoutError`."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while (now := status()).unfinished:
        if deadline is not None and time.monotonic() >= deadline:
            raise TimeoutError(
                f"{path} still has {now.unfinished} unfinished tasks after {timeout_s:g} s"
            )
        sleep(WAIT_S)
    return now


def _chosen_results(
    subtree: Subtree, where: str | None, since: datetime | None, *, below: bool
) -> Iterator[Row]:
    """Yield rows of results that match and are as new as wanted, with the path of their campaign.

    A filter that names keys has few tasks: those are read, and the new results among them chosen.
    """
    database, chosen = subtree.database, compiled(where)
    nodes = _checked(subtree, chosen, below=below)

    def tasks(campaign: int) -> Iterator[list[int]]:
        new = None
        if since is not None and chosen.keys is None:
            new = following.ended_since(database, campaign, since)
        if where is None and new is not None:
            return (found[at : at + PAGE] for found in new for at in range(0, len(found), PAGE))
        return (page.tasks for page in pages(database, campaign, chosen, ["done"], among=new))

    return (
        {"campaign": path, **row}
        for campaign, path in nodes
        for some in tasks(campaign)
        if some
        for row in database.rows("results_of", campaign=campaign, tasks=some)
        if since is None or row["ended_at"] >= since
    )


def _checked(subtree: Subtree, chosen: Filter, *, below: bool) -> list[tuple[int, str]]:
    """Return the campaigns of a filter; warn of its fields that no task of them has."""
    nodes = [*subtree.nodes(below=below)]
    campaigns = [campaign for campaign, _ in nodes]
    if odd := misspelt(subtree.database, subtree.path, campaigns, chosen):
        warnings.warn(str(odd), stacklevel=_CALLER)
    return nodes
