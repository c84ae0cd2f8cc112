"""How attempts ended, by campaign, host and time: sums that the keeper makes behind the reports.

They cover a week, whatever the number of attempts, and are some seconds old. A sample of the latest
attempts, see `sample`, knows more of each of them, but of a large campaign only the last minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from taskq.db.access import Queries

#: What sums can be kept apart by; by outcome and sort they always are.
Dimension: TypeAlias = Literal["campaign", "host", "site", "release", "time"]
#: The most sums that are read at once.
MOST_SUMS: Final = 20_000


@dataclass(frozen=True, slots=True)
class EndSum:
    """Attempts that ended in one way; see `end_sums` in SQL for the fields.

    What they are not kept apart by is None.
    """

    campaign: str | None
    host: str | None
    site: str | None
    release: str | None
    starts: datetime | None
    outcome: str
    sort: str
    attempts: int
    run_s: float
    core_s: float
    logs: float
    squares: float
    numbers: int
    number_sum: float
    number_squares: float
    first_task: int | None
    last_task: int | None
    first_at: datetime | None
    last_at: datetime | None


def read_ends(
    database: Queries, path: str, per: Sequence[Dimension], since: datetime | None = None
) -> list[EndSum]:
    """Read how attempts at and below a path ended; those that used most core-hours come first.

    Raise `NotFound` if there is no such campaign.
    """
    rows = database.rows("end_sums", path=path, per=list(per), since=since, most=MOST_SUMS)
    return [EndSum(**row) for row in rows]
