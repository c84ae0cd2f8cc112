"""Statements about many tasks of a campaign, a bounded part at a time."""

from __future__ import annotations

from collections.abc import Iterator
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


def in_chunks(database: Queries, name: str, /, **values: object) -> int:
    """Repeat a statement that moves a chunk of tasks, until none is left; return the sum."""
    moved, after = 0, 0
    while True:
        (row,) = database.rows(name, after=after, limit=MOVE_CHUNK, **values)
        if not row["moved"]:
            return moved
        moved, after = moved + row["moved"], row["last"]
