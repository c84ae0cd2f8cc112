"""Tasks of a campaign that match a filter, found page by page in the order of seeding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from taskq.campaign.filter_compiler import Filter
from taskq.db.access import Queries
from taskq.db.address import Row

#: Tasks that one statement looks at.
PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Page:
    """A page of tasks: those that match. looked: how many tasks the page looked at.

    rows: fields of `TaskView` and others; payloads are None unless asked for.
    """

    looked: int
    rows: list[Row]

    @property
    def tasks(self) -> list[int]:
        """The ids of the matching tasks, in order."""
        return [row["task_id"] for row in self.rows]


def pages(
    database: Queries,
    campaign: int,
    chosen: Filter,
    states: Iterable[str],
    *,
    payloads: bool = False,
) -> Iterator[Page]:
    """Look at the tasks of a campaign in some states, a page at a time.

    A task that changes meanwhile is judged as it stood when its page was read.
    """
    wanted = sorted(chosen.states.intersection(states))
    after = 0
    while wanted and (
        rows := database.rows(
            "find_tasks",
            campaign=campaign,
            filter=chosen.terms,
            states=wanted,
            parts=sorted(chosen.parts),
            payloads=payloads,
            after=after,
            limit=PAGE,
        )
    ):
        after = rows[-1]["task_id"]
        yield Page(rows[0]["looked"], [row for row in rows if row["matches"]])
