"""Count of the unfinished tasks in a scope, and of those that its agents cannot get."""

from __future__ import annotations

from typing import Final, NamedTuple

from taskq.db.connections import Row
from taskq_agent.protocol import Unservable


class Remaining(NamedTuple):
    """The number of unfinished tasks, and the number among them that no agent of the scope can get.

    unfinished: None if they were not counted.
    """

    unfinished: int | None
    unservable: Unservable | None = None

    @property
    def awaited(self) -> int:
        """Return the number of unfinished tasks that an agent of the scope may still get."""
        return (self.unfinished or 0) - (self.unservable.tasks if self.unservable else 0)


UNKNOWN: Final = Remaining(None)


def from_row(row: Row) -> Remaining:
    """Return the result of a row of `left_over`; see sql/functions/left_over.sql."""
    tasks = row["unservable"]
    unservable = Unservable(tasks, tuple(row["reasons"])) if tasks else None
    return Remaining(row["unfinished"], unservable)
