"""A bounded sample of the latest attempts, in groups: campaign, session, outcome, class."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from taskq.db.access import Queries
from taskq.fleet.evidence import RunTimeSums

#: Attempts that are read, however many there are.
MOST: Final = 10_000
#: Outcomes of attempts that did not succeed where they were made.
BAD: Final = frozenset({"failed", "lost", "refused"})
#: Outcomes that say something about a place: others were handed back or cancelled.
TELLING: Final = BAD | {"done"}


@dataclass(frozen=True, slots=True)
class AttemptGroup:
    """Attempts of a session that ended alike; see `latest_attempts` in SQL for the fields."""

    campaign: str
    session_id: int
    host: str
    site: str
    slots: int
    within: bool
    outcome: str
    error_class: str | None
    attempts: int
    tasks: int
    run_s: float
    logs: float
    squares: float
    payload_s: float | None
    first_at: datetime | None
    last_at: datetime | None

    @property
    def times(self) -> RunTimeSums:
        """The run times."""
        return RunTimeSums(self.attempts, self.logs, self.squares)


def read_sample(database: Queries, path: str) -> list[AttemptGroup]:
    """Read the sample of a campaign and all below it; raise `NotFound` if there is none."""
    return [AttemptGroup(**row) for row in database.rows("latest_attempts", path=path, most=MOST)]
