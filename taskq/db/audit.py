"""Audit of the queue's guarantees about tasks on a live database; `sql/audit` has the checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from taskq.db.catalogue import array
from taskq.db.connections import Database, Row, Statements

#: Checks of tasks, in the order in which they run, and those of a campaign, which run after them.
CHECKS: Final = (
    "halves",
    "twice",
    "held",
    "leases",
    "overlaps",
    "stuck",
    "accepted",
    "numbers",
    "after_the_end",
    "hedged",
    "failed",
    "tallies",
    "delayed",
)
OF_CAMPAIGNS: Final = (
    "counts",
    "subtotals",
    "usage",
    "ends",
    "banned",
    "quota",
    "limited",
    "outputs",
)
#: Checks about all campaigns alike; they run once, for the topmost campaign.
ONCE: Final = ("set_back",)
_PAGE: Final = 10_000
_AT_A_TIME: Final = 100
_LAST_ID: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Violation:
    """Rows of the tables that violate a guarantee of the queue.

    check: the name of the file in `sql/audit` that states the guarantee. task_id: None if the
    campaign violates it. rows: the evidence: for a task its key, its row and those of its
    attempts, without payload and result; for a campaign the counters and the recount.
    """

    campaign: str
    check: str
    task_id: int | None
    text: str
    rows: dict[str, Any]


def audit(
    database: Database, path: str, look: Callable[[str, int], None] = lambda _, __: None
) -> Iterator[Violation]:
    """Yield the violations in a campaign and all below it, ordered by path.

    A read-only transaction reads each campaign in one snapshot, so it sees concurrent changes
    completely or not at all. It reads tasks in pages: memory is bounded, and time grows in
    proportion to the tasks.

    look: called with a campaign's path and how many of its tasks have been checked since the last
    call. Raise `NotFound` if there is no such campaign.
    """
    once: tuple[str, ...] = ONCE
    for campaign in database.rows("counts", path=path, depth=None):
        with database.transaction() as snapshot:
            snapshot.execute("audit_snapshot")
            snapshot.execute("audit_plans")
            number, its_path = campaign["campaign_id"], campaign["path"]
            yield from _tasks(snapshot, number, its_path, look)
            for check in OF_CAMPAIGNS + once:
                for row in snapshot.rows(f"taskq.sql.audit/{check}", campaign=number):
                    yield Violation(its_path, check, None, row["text"], row["rows"])
        once = ()


def _tasks(
    snapshot: Statements, campaign: int, path: str, look: Callable[[str, int], None]
) -> Iterator[Violation]:
    after = 0
    while after < _LAST_ID:
        page = snapshot.row("audit_page", campaign=campaign, after=after, most=_PAGE) or {}
        # The last page has no upper bound: there may be tasks without a spec behind the last one.
        upto = page["last"] if page["tasks"] == _PAGE else _LAST_ID
        for check in CHECKS:
            found = snapshot.rows(
                f"taskq.sql.audit/{check}", campaign=campaign, after=after, upto=upto
            )
            for begin in range(0, len(found), _AT_A_TIME):
                some = found[begin : begin + _AT_A_TIME]
                rows = _evidence(snapshot, campaign, some)
                for sample in some:
                    task = sample["task_id"]
                    yield Violation(path, check, task, sample["text"], rows[task])
        look(path, page["tasks"])
        after = upto


def _evidence(snapshot: Statements, campaign: int, found: list[Row]) -> dict[int, dict[str, Any]]:
    tasks = array({row["task_id"] for row in found})
    rows = snapshot.rows("audit_evidence", campaign=campaign, tasks=tasks)
    return {row["task_id"]: row["rows"] for row in rows}
