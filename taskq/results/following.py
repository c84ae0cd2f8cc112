"""Results that have come since a cursor or an instant, and those that were withdrawn.

Attempts are recorded when they end. So in the gaps of a cursor, and behind its last task, the key
of attempts holds only new results and failures, and no waiting tasks. A look costs the rows that it
finds, a look-up for each gap, and the failures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Final

from taskq.db.access import PAGE, Queries
from taskq.db.rows import Row
from taskq.model.pauses import sleep
from taskq.model.views import Result, Status
from taskq.results.cursor import Cursor
from taskq.results.id_set import LAST_ID, IdSet

#: Limits of one statement: gaps that it looks into, and attempts that it reads.
GAPS: Final = 1_000
SCAN: Final = 5_000
POLL_S: Final = 0.5
#: The pause after a look, as a multiple of its duration.
REST: Final = 9


@dataclass(frozen=True, slots=True)
class WithdrawnResult(Result):
    """A result that a cursor has given and an operator has withdrawn since; `result` is None.

    The task's next result follows when there is one.
    """

    _: KW_ONLY
    withdrawn: bool = True


def look(
    database: Queries,
    campaigns: Iterable[tuple[int, str]],
    cursor: Cursor,
    on_page: Callable[[], object] = lambda: None,
) -> Iterator[Row]:
    """Yield results that the cursor does not have, campaign by campaign and ordered by task.

    Each campaign begins with the results that the cursor has and that were withdrawn since, marked
    `withdrawn` and without the result. Results count as given when the next is requested, and
    withdrawn ones a page at a time. on_page: called when all so far are given.
    """
    for campaign, path in campaigns:
        given, known = cursor.given(campaign), cursor.withdrawn(campaign)
        for row in _withdrawn(database, campaign, cursor):
            yield {"campaign": path, **row, "withdrawn": True}
        for tasks in _new_tasks(database, campaign, given):
            for start in range(0, len(tasks), PAGE):
                page = tasks[start : start + PAGE]
                rows = database.rows("results_of", campaign=campaign, tasks=page)
                known.update(_withdrawn_before(database, campaign, rows))
                for row in rows:
                    yield {"campaign": path, **row}
                    given.add(row["task_id"])
                on_page()


def follow(
    database: Queries,
    counts: Callable[[], list[Status]],
    cursor: Cursor,
    on_page: Callable[[], object] = lambda: None,
) -> Iterator[Row]:
    """Yield results as they come, until no task is unfinished; see `look`.

    counts: returns the own counts of each campaign. A look is followed by a pause nine times as
    long.
    """
    looked: dict[int, int] = {}
    rested_at = 0.0
    while True:
        nodes = counts()
        done = {node.campaign_id: node.done for node in nodes}
        ended = not any(node.unfinished for node in nodes)
        began = time.monotonic()
        if ended or (done != looked and began >= rested_at):
            moved = (
                (node.campaign_id, node.path)
                for node in nodes
                if ended or node.done != looked.get(node.campaign_id, 0)
            )
            yield from look(database, moved, cursor, on_page)
            looked, now = done, time.monotonic()
            rested_at = now + REST * (now - began)
        on_page()
        if ended:
            return
        sleep(POLL_S)


def ended_since(database: Queries, campaign: int, since: datetime) -> Iterator[list[int]]:
    """Yield the tasks of a campaign whose results came at an instant or later, in order.

    The server reads all attempts of the campaign; only the ids of these tasks come from it.
    """
    after: int | None = 0
    while after is not None:
        words = {"firsts": [after + 1], "lasts": [LAST_ID], "since": since, "scan": SCAN}
        (row,) = database.rows("done_within", campaign=campaign, **words)
        if row["tasks"]:
            yield row["tasks"]
        after = row["last"]


def _withdrawn(database: Queries, campaign: int, cursor: Cursor) -> Iterator[Row]:
    """Yield withdrawn results that were given; then they count as not given."""
    given, known = cursor.given(campaign), cursor.withdrawn(campaign)
    given.settle()
    last = {"task": 0, "attempt": 0}
    while page := database.rows("withdrawals", campaign=campaign, limit=PAGE, **last):
        last = {"task": page[-1]["task_id"], "attempt": page[-1]["attempt"]}
        gone = [pair for row in page if (pair := (row["task_id"], row["attempt"])) not in known]
        # Of several, the first: it made room for the others, which were not given.
        had: dict[int, int] = {}
        for task, attempt in gone:
            if task in given:
                had.setdefault(task, attempt)
        words = {"tasks": [*had], "attempts": [*had.values()]}
        rows = database.rows("withdrawn_results", campaign=campaign, **words) if had else []
        try:
            yield from rows
        finally:
            # Even if the reader stops within the page: later results of these tasks then follow.
            if gone:
                given.remove(task for task, _ in gone)
                known.update(gone)


def _withdrawn_before(
    database: Queries, campaign: int, rows: list[Row]
) -> Iterator[tuple[int, int]]:
    """Yield (task, attempt) of the withdrawn results that the results in these rows replace."""
    given = {row["task_id"]: row["attempt"] for row in rows}
    for row in database.rows("withdrawals_of", campaign=campaign, tasks=list(given)):
        if row["attempt"] != given[row["task_id"]]:
            yield row["task_id"], row["attempt"]


def _new_tasks(database: Queries, campaign: int, given: IdSet) -> Iterator[list[int]]:
    given.settle()
    after = 0
    while after < LAST_ID:
        gaps = given.gaps(after, GAPS)
        if not gaps:
            return
        firsts, lasts = (list(ids) for ids in zip(*gaps, strict=True))
        words = {"campaign": campaign, "firsts": firsts, "lasts": lasts, "since": None}
        (row,) = database.rows("done_within", scan=SCAN, **words)
        if row["tasks"]:
            yield row["tasks"]
        after = lasts[-1] if row["last"] is None else row["last"]
