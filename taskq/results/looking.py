"""Reads results that a cursor does not have yet.

Attempts are recorded when they end. So in the gaps of a cursor, and behind its last task, the key
of attempts holds only new results and failures, and no waiting tasks. A look costs the rows that it
finds, a look-up for each gap, and the failures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from taskq.db.access import PAGE, Queries
from taskq.db.address import Row
from taskq.model.pauses import sleep
from taskq.model.views import Status
from taskq.results.cursor import LAST_ID, Cursor, IdSet

#: Limits of one statement: gaps that it looks into, and attempts that it reads.
GAPS: Final = 1_000
SCAN: Final = 5_000
POLL_S: Final = 0.5
#: The pause after a look, as a multiple of its duration.
REST: Final = 9


def look(
    database: Queries,
    campaigns: Iterable[tuple[int, str]],
    cursor: Cursor,
    on_page: Callable[[], object] = lambda: None,
) -> Iterator[Row]:
    """Yield results that the cursor does not have, campaign by campaign and ordered by task.

    Each counts as given when the next is requested. on_page: called when all so far are given.
    """
    for campaign, path in campaigns:
        given = cursor.given(campaign)
        for tasks in _new_tasks(database, campaign, given):
            for start in range(0, len(tasks), PAGE):
                page = tasks[start : start + PAGE]
                for row in database.rows("results_of", campaign=campaign, tasks=page):
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
        done = {one.campaign_id: one.done for one in nodes}
        ended = not any(one.unfinished for one in nodes)
        began = time.monotonic()
        if ended or (done != looked and began >= rested_at):
            moved = (
                (one.campaign_id, one.path)
                for one in nodes
                if ended or one.done != looked.get(one.campaign_id, 0)
            )
            yield from look(database, moved, cursor, on_page)
            looked, now = done, time.monotonic()
            rested_at = now + REST * (now - began)
        on_page()
        if ended:
            return
        sleep(POLL_S)


def _new_tasks(database: Queries, campaign: int, given: IdSet) -> Iterator[list[int]]:
    given.settle()
    after = 0
    while after < LAST_ID:
        gaps = given.gaps(after, GAPS)
        if not gaps:
            return
        firsts, lasts = (list(ids) for ids in zip(*gaps, strict=True))
        words = {"campaign": campaign, "firsts": firsts, "lasts": lasts, "scan": SCAN}
        (row,) = database.rows("done_within", **words)
        if row["tasks"]:
            yield row["tasks"]
        after = lasts[-1] if row["last"] is None else row["last"]
