"""Verbs of `Campaign` that read results, tasks and failures, or wait; its methods describe them."""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from operator import attrgetter
from pathlib import Path
from typing import Final

from taskq.campaign.bulk import pages
from taskq.campaign.filter_compiler import compiled
from taskq.campaign.node import CampaignNode
from taskq.db.address import Row
from taskq.db.standby import exact
from taskq.diagnosis.due import last_due_s
from taskq.diagnosis.fact_reading import read_facts
from taskq.diagnosis.reasons import Explanation
from taskq.diagnosis.rules import explain_campaign
from taskq.diagnosis.task_rules import explain_task
from taskq.diagnosis.trend import CampaignPace, Point, recent_pace
from taskq.files.archives import Outputs
from taskq.files.blob_store import BlobStore
from taskq.files.fetching import Fetched, fetch
from taskq.files.large_results import Fetching
from taskq.files.live_output import OutputPart, output_of
from taskq.model.campaign_spec import CampaignSpec
from taskq.model.errors import ResultLost, UsageError
from taskq.model.pauses import sleep
from taskq.model.seed import STATUSES
from taskq.model.views import Attempt, FailureCause, Hedges, Result, SecondAttempt, Status, TaskView
from taskq.results import looking
from taskq.results.cursor import Cursor

WAIT_S: Final = 0.5
HEDGES: Final = 10


def results(
    node: CampaignNode,
    where: str | None,
    since: Cursor | None,
    *,
    below: bool,
    fetching: Fetching,
) -> Iterator[Result]:
    """Iterate over results: all, those that match, or those that a cursor does not have."""
    if since is not None:
        if where is not None:
            raise UsageError("results since a cursor are all that have come: leave out where")
        since.begin(node.path, node.row()["created_at"])
        rows = looking.look(node.database, node.nodes(below=below), since)
    elif where is not None:
        rows = _matching_results(node, where, below=below)
    else:
        rows = node.pages("results", below=below)
    return (Result(**fetching.of(row)) for row in rows)


def follow(
    node: CampaignNode,
    since: Cursor | None,
    *,
    below: bool,
    fetching: Fetching,
    on_page: Callable[[], object],
) -> Iterator[Result]:
    """Iterate over results as they come, until no task is unfinished."""
    cursor = Cursor() if since is None else since
    cursor.begin(node.path, node.row()["created_at"])

    def counts() -> list[Status]:
        return [one for one in node.tree() if below or one.path == node.path]

    rows = looking.follow(node.database, counts, cursor, on_page)
    return (Result(**fetching.of(row)) for row in rows)


def fetch_files(
    node: CampaignNode,
    to: Path,
    chosen: Iterable[Result | str],
    blobs: BlobStore | None,
    on_lost: Callable[[ResultLost], None] | None,
) -> Fetched:
    """Write the output files of results, or of tasks with these keys, to a folder."""
    found = (one if isinstance(one, Result) else node.results_of([one])[0] for one in chosen)
    campaigns = {node.path: node.campaign_id}
    campaigns |= {path: campaign for campaign, path in node.nodes(below=True)}
    return fetch(Outputs(node.database, blobs), campaigns, found, to, on_lost=on_lost)


def tasks(node: CampaignNode, status: str | None, where: str | None, *, below: bool) -> Iterator[TaskView]:
    """Iterate over tasks in one status, or all; where: only those that match."""
    if where is None:
        return (TaskView(**row) for row in node.pages("tasks", below=below, status=status))
    chosen, states = compiled(where), STATUSES if status is None else (status,)
    return (
        TaskView(campaign=path, **{name: row[name] for name in TaskView.__slots__ if name in row})
        for campaign, path in node.nodes(below=below)
        for page in pages(node.database, campaign, chosen, states, payloads=True)
        for row in page.rows
    )


def attempts(node: CampaignNode, key: str) -> list[Attempt]:
    """Return the attempts of a task that have ended, in order."""
    (task,) = node.task_ids([key])
    rows = node.database.rows("attempts", campaign=node.campaign_id, task=task)
    return [Attempt(**row) for row in rows]


def logs(node: CampaignNode, key: str) -> Iterator[OutputPart]:
    """Iterate over the output of a task as it is written, to its end."""
    (task,) = node.task_ids([key])
    return output_of(exact(node.database), node.campaign_id, task)


def explain(node: CampaignNode, key: str | None, *, whole: bool) -> Explanation:
    """Explain why tasks do not run, or not faster; key: why this one does not."""
    if key is None:
        return explain_campaign(read_facts(node.database, node.path, whole=whole))
    task, spec = node.task(key), CampaignSpec.from_settings(node.path, node.row()["settings"])
    looks = task.status == "failed"
    facts = read_facts(node.database, node.path, looks=looks, whole=whole)
    return explain_task(task, attempts(node, key), spec.retry, facts)


def hedges(node: CampaignNode, *, below: bool) -> Hedges:
    """Return counts of second attempts, and those at work."""
    (row,) = node.database.rows("hedges", path=node.path, below=below, most=HEDGES)
    longest = [SecondAttempt(**one) for one in row.pop("longest")]
    return Hedges(**row, longest=longest)


def failure_classes(node: CampaignNode, *, below: bool) -> dict[str, int]:
    """Return the number of failed and lost attempts by error class, most frequent first."""
    found: Counter[str] = Counter()
    for campaign, _ in node.nodes(below=below):
        for row in node.database.rows("failure_classes", campaign=campaign):
            found[row["error_class"]] += row["attempts"]
    return dict(found.most_common())


def failure_causes(node: CampaignNode, limit: int, *, below: bool) -> list[FailureCause]:
    """Return failed, lost and refused attempts grouped by cause, most frequent first."""
    causes = (
        FailureCause(campaign=path, **row)
        for campaign, path in node.nodes(below=below)
        for row in node.database.rows("failure_causes", campaign=campaign, limit=limit)
    )
    return heapq.nlargest(limit, causes, key=attrgetter("attempts"))


def trend(node: CampaignNode, within: timedelta | None) -> list[Point]:
    """Return a point a minute, the oldest first."""
    minutes = None if within is None else within // timedelta(minutes=1)
    rows = node.database.rows("trend", campaign=node.campaign_id, minutes=minutes)
    return [Point(**row) for row in rows]


def pace(node: CampaignNode, now: Status) -> CampaignPace | None:
    """Return the rate of the last ten minutes, or longer; not at an end before delays are over."""
    found = recent_pace(trend(node, timedelta(days=2)), now.done + now.failed, now.unfinished)
    return found and found.not_before(last_due_s(node.database, now))


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


def _matching_results(node: CampaignNode, where: str, *, below: bool) -> Iterator[Row]:
    """Yield rows of results of matching tasks, with the path of their campaign."""
    chosen = compiled(where)
    return (
        {"campaign": path, **row}
        for campaign, path in node.nodes(below=below)
        for page in pages(node.database, campaign, chosen, ["done"])
        if page.rows
        for row in node.database.rows("results_of", campaign=campaign, tasks=page.tasks)
    )
