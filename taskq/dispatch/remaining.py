"""What is left to be done in what an agent serves, and how much of that it may be given one day."""

from __future__ import annotations

from typing import Final, NamedTuple

from taskq.db.connections import Row
from taskq_agent.protocol import Unservable


class Remaining(NamedTuple):
    """The tasks that are unfinished, None: not counted; and those that an agent cannot be given."""

    unfinished: int | None
    unservable: Unservable | None = None

    @property
    def awaited(self) -> int:
        """Return for how many tasks it is worth waiting."""
        return (self.unfinished or 0) - (self.unservable.tasks if self.unservable else 0)


UNKNOWN: Final = Remaining(None)


def from_row(row: Row) -> Remaining:
    """Return what `left_over` has told; see sql/functions/left_over.sql."""
    tasks = row["unservable"]
    unservable = Unservable(tasks, tuple(row["reasons"])) if tasks else None
    return Remaining(row["unfinished"], unservable)
