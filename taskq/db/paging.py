"""Statements about many tasks of a campaign, a bounded part at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from taskq.db.access import Queries
from taskq.db.connections import Row

PAGE: Final = 1_000
MOVE_CHUNK: Final = 5_000


def pages(database: Queries, name: str, /, **values: object) -> Iterator[Row]:
    """Yield all rows of a statement that returns a page of tasks, in the order of their ids."""
    after = 0
    while rows := database.rows(name, after=after, limit=PAGE, **values):
        yield from rows
        after = rows[-1]["task_id"]


def task_ids(database: Queries, campaign: int, keys: Iterable[str]) -> dict[str, int]:
    """Return the ids of a campaign's tasks by their keys; keys of no task are left out."""
    rows = database.rows("task_ids", campaign=campaign, keys=list(keys))
    return {row["key"]: row["task_id"] for row in rows}


def in_chunks(
    database: Queries, name: str, /, *, tasks: Sequence[int] | None, **values: object
) -> int:
    """Move tasks with a statement, a chunk at a time; return how many it moved.

    tasks: only these; None means all that the statement finds.
    """
    moved, after = 0, 0
    if tasks is not None:
        for start in range(0, max(1, len(tasks)), MOVE_CHUNK):
            chunk = sorted(tasks[start : start + MOVE_CHUNK])
            (row,) = database.rows(name, tasks=chunk, after=0, limit=MOVE_CHUNK, **values)
            moved += row["moved"] or 0
        return moved
    while True:
        (row,) = database.rows(name, tasks=None, after=after, limit=MOVE_CHUNK, **values)
        if not row["moved"]:
            return moved
        moved, after = moved + row["moved"], row["last"]
