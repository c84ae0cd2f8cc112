"""Access to a queue's named statements, at PostgreSQL or a gateway, some in bounded parts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from taskq.db.pacing import PacedChange
from taskq.db.rows import Row
from taskq.model.errors import UsageError
from taskq.model.seed import NamedCampaign

PAGE: Final = 1_000
MOVE_CHUNK: Final = 5_000
#: Keys that one statement looks up.
KEY_CHUNK: Final = 10_000


def check_process(connected_in: int) -> None:
    """Raise `UsageError` in a forked child of the process that connected.

    They would share sockets, and each would get answers to the other's statements.
    """
    if os.getpid() != connected_in:
        raise UsageError("this queue was connected in another process; connect again in this one")


class Queries(Protocol):
    """Runs the statements of `sql/queries` by name.

    `connections.Database` and `statements.Statements` run them on a connection,
    `gateway_queries.GatewayQueries` asks a gateway. Code that needs only this works over both.
    `row` and `value` follow from `rows`.
    """

    @property
    def is_closed(self) -> bool:
        """Whether it was closed; a closed one answers nothing."""
        ...

    def rows(self, name: str, /, **values: object) -> list[Row]:
        """Return all rows of a statement."""
        ...

    def row(self, name: str, /, **values: object) -> Row | None:
        """Return the first row, None if there is none."""
        return next(iter(self.rows(name, **values)), None)

    def value(self, name: str, /, **values: object) -> Any:
        """Return the first column of the first row, None if there is none."""
        row = self.row(name, **values)
        return None if row is None else next(iter(row.values()))


class Queue(Protocol):
    """The part of `taskq.Client` that the rooms below it need; see there."""

    @property
    def queries(self) -> Queries:
        """The statements of the queue."""
        ...

    def campaign(self, path: str) -> NamedCampaign:
        """Return the campaign at a path; raise `UnknownCampaign` if there is none."""
        ...


def pages(database: Queries, name: str, /, **values: object) -> Iterator[Row]:
    """Yield all rows of a statement that returns a page of tasks, in the order of their ids."""
    after = 0
    while rows := database.rows(name, after=after, limit=PAGE, **values):
        yield from rows
        after = rows[-1]["task_id"]


def task_ids(database: Queries, campaign: int, keys: Iterable[str]) -> dict[str, int]:
    """Return the ids of a campaign's tasks by their keys; keys of no task are left out."""
    wanted = list(keys)
    found: dict[str, int] = {}
    for start in range(0, len(wanted), KEY_CHUNK):
        some = wanted[start : start + KEY_CHUNK]
        rows = database.rows("task_ids", campaign=campaign, keys=some)
        found |= {row["key"]: row["task_id"] for row in rows}
    return found


def task_rows(database: Queries, campaign: int, tasks: Iterable[int]) -> Iterator[Row]:
    """Yield the rows of a campaign's tasks, in the order given."""
    for task in tasks:
        yield from database.rows("tasks", campaign=campaign, status=None, after=task - 1, limit=1)


def chunks(database: Queries, name: str, /, **values: object) -> Iterator[int]:
    """Move or remove tasks with a statement, a chunk at a time; yield how many each chunk was.

    It leaves time to others between chunks, see `PacedChange`.
    """
    after: int | None = 0
    pace = PacedChange(database)
    while after is not None:
        with pace.step():
            (row,) = database.rows(name, after=after, limit=MOVE_CHUNK, **values)
        yield row["moved"]
        after = row["last"]


def in_chunks(
    database: Queries, name: str, /, *, tasks: Sequence[int] | None, **values: object
) -> int:
    """Move tasks with a statement, a chunk at a time; return how many it moved.

    tasks: only these; None means all that the statement finds.
    """
    if tasks is None:
        return sum(chunks(database, name, tasks=None, **values))
    moved, pace = 0, PacedChange(database)
    for start in range(0, max(1, len(tasks)), MOVE_CHUNK):
        chunk = sorted(tasks[start : start + MOVE_CHUNK])
        with pace.step():
            (row,) = database.rows(name, tasks=chunk, after=0, limit=MOVE_CHUNK, **values)
        moved += row["moved"]
    return moved
