"""A bounded sample of the latest attempts, in groups: campaign, session, outcome, class."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from taskq.db.access import Queries
from taskq.diagnosis.bans import PlaceKind
from taskq.diagnosis.evidence import RunTimeSums
from taskq.model.views import Status
from taskq.model.words import counted, instant

#: The most attempts that are read.
MOST: Final = 10_000
#: Outcomes of attempts that did not succeed at their place.
BAD: Final = frozenset({"failed", "lost", "refused"})
#: Outcomes that count for a place; other attempts were handed back or cancelled.
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
    outdated: bool
    attempts: int
    tasks: int
    run_s: float
    logs: float
    squares: float
    payload_s: float | None
    first_at: datetime | None
    last_at: datetime | None
    lease_s: float = 0.0

    @property
    def times(self) -> RunTimeSums:
        """The run times."""
        return RunTimeSums(self.attempts, self.logs, self.squares)


@dataclass(frozen=True, slots=True)
class SampleSize:
    """How many attempts a sample has, and how many there are that succeeded or failed.

    until: if sums have taken the place of attempts: when the hour ended that these have.
    """

    attempts: int
    whole: int
    until: datetime | None = field(default=None, kw_only=True)

    def __str__(self) -> str:
        """In words: `the latest 10,000 of 3,000,000 attempts`."""
        if self.until is not None:
            return f"{counted(self.attempts, 'attempt')} of the hour before {instant(self.until)}"
        if self.attempts < self.whole:
            return f"the latest {self.attempts:,} of {counted(self.whole, 'attempt')}"
        return f"all {counted(self.attempts, 'attempt')}" if self.attempts > 1 else "one attempt"

    @property
    def is_cut(self) -> bool:
        """Whether there are more attempts than the sample has."""
        return self.attempts < self.whole and self.until is None


@dataclass(frozen=True, slots=True)
class Sample:
    """The sample of a campaign and all below it.

    by_session: where sums have taken the place of attempts, these attempts, by session.
    """

    groups: Sequence[AttemptGroup]
    size: SampleSize
    by_session: Sequence[AttemptGroup] | None = None


def by_place(groups: Iterable[AttemptGroup], kind: PlaceKind) -> dict[str, list[AttemptGroup]]:
    """Return the attempts by the name of their host or site; a `defaultdict`."""
    found: dict[str, list[AttemptGroup]] = defaultdict(list)
    for group in groups:
        found[group.host if kind == "host" else group.site].append(group)
    return found


def ended_alike(
    campaign: str, host: str, site: str, error_class: str | None, attempts: int
) -> AttemptGroup:
    """Return attempts at so many tasks, of which neither sessions nor times are known.

    error_class: in which they failed; None if they succeeded.
    """
    return AttemptGroup(
        campaign=campaign,
        session_id=0,
        host=host,
        site=site,
        slots=1,
        within=False,
        outcome="done" if error_class is None else "failed",
        error_class=error_class,
        outdated=False,
        attempts=attempts,
        tasks=attempts,
        run_s=0.0,
        logs=0.0,
        squares=0.0,
        payload_s=None,
        first_at=None,
        last_at=None,
    )


def bad_attempts(groups: Iterable[AttemptGroup]) -> int:
    """Return how many attempts did not succeed at their place."""
    return sum(group.attempts for group in groups if group.outcome in BAD)


def ended_attempts(status: Status) -> int:
    """Return how many attempts succeeded, failed or were lost."""
    return status.done + status.failures + status.losses


def size_of(groups: Iterable[AttemptGroup], ended: int) -> SampleSize:
    """Return the size of a sample; ended: how many attempts succeeded, failed or were lost."""
    telling = [group for group in groups if group.outcome in TELLING]
    attempts = sum(group.attempts for group in telling)
    # No counter has the refused ones: add those in the sample.
    refused = sum(group.attempts for group in telling if group.outcome == "refused")
    return SampleSize(attempts, max(attempts, ended + refused))


def read_sample(database: Queries, path: str, ended: int | None = None) -> Sample:
    """Read the sample of a campaign and all below it; raise `NotFound` if there is none.

    ended: how many attempts there succeeded, failed or were lost; None reads that too.
    """
    if ended is None:  # before the sample: attempts that end meanwhile must not look left out
        ended = ended_attempts(Status(**database.rows("counts", path=path, depth=0)[0]))
    rows = database.rows("latest_attempts", path=path, most=MOST)
    groups = [AttemptGroup(**row) for row in rows]
    return Sample(groups, size_of(groups, ended))
