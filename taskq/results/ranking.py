"""Ranking: the best of many results by one of their values, and how many of them to take.

PostgreSQL scans the results of a campaign, a bounded part in each statement, and returns the ids of
the best. So the number of wanted results bounds memory and traffic, and the others never leave the
server. The database has only references to large results: these are fetched one by one if the value
is in the result.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any, Final, TypeAlias

from taskq.db.access import Queries
from taskq.db.rows import Row
from taskq.files.large_results import Fetching
from taskq.model.errors import UsageError
from taskq.model.seed import NamedCampaign
from taskq.model.views import Result

#: SCAN: attempts that one statement scans. PAGE: results in memory while they are returned.
SCAN: Final = 20_000
PAGE: Final = 1_000
ALL: Final = 100
#: Most results that can be chosen, since their places are in memory.
MOST: Final = 1_000_000

# A number with more digits before the point counts as none; see `number_at.sql`.
_BEYOND: Final = 10**309

# A better place compares larger: the value or its negation, then the earlier campaign and task.
_Place: TypeAlias = tuple[Decimal, int, int]

_PLAIN: Final = ("task_id", "attempt", "claimed_at", "ended_at")


@dataclass(frozen=True, slots=True)
class Best:
    """The best results: `n` of them, or `percent` of those with a number in `by`, rounded up.

    Equal numbers are in the order of campaigns, by path, then of seeding: so the choice has exactly
    this size, and is always the same.

    Attributes:
        by: A dotted name, such as `result.score`.
        n: How many; None with `percent`.
        percent: The share, from 0 to 100; None with `n`.
        lowest: Whether the lowest number is best.
        group: A dotted name, such as `payload.smiles`: of results with the same value there only
            the best counts, and percent is of these groups.
        recipe: Only results of this recipe of their campaigns.
    """

    by: str
    _: KW_ONLY
    n: int | None = None
    percent: float | Fraction | None = None
    lowest: bool = True
    group: str | None = None
    recipe: int | None = None

    def __post_init__(self) -> None:
        if (self.n is None) == (self.percent is None):
            raise UsageError("give how many to choose: either n or percent")
        if self.n is not None and (type(self.n) is not int or not 1 <= self.n <= MOST):
            raise UsageError(f"n must be a whole number from 1 to {MOST:,}, not {self.n!r:.80}")
        if self.percent is not None and not 0 < self.percent <= ALL:
            raise UsageError(f"percent must be above 0 and at most 100, not {self.percent!r:.80}")
        for name in ("by", "group"):
            value = getattr(self, name)
            if not (value is None and name == "group") and not (value and isinstance(value, str)):
                raise UsageError(f"{name} must be a dotted name, not {value!r:.80}")
        if self.group is not None and self.group.partition(".")[0] not in ("payload", "result"):
            raise UsageError(f"group must begin with payload. or result., not {self.group!r:.80}")

    def so_far(self, done: int, of: int) -> Best:
        """Return the choice while only `done` of `of` tasks are done: their share of `n`.

        All of `n` from the start would choose most of them too early.
        """
        return self if self.n is None else replace(self, n=max(1, math.ceil(self.n * done / of)))

    def number(self, ranked: int) -> int:
        """Return how many of `ranked` to choose.

        Raises:
            UsageError: It is more than a million.
        """
        if self.percent is None:
            return min(ranked, self.n or 0)
        wanted = math.ceil(Fraction(str(self.percent)) * ranked / ALL)
        if wanted > MOST:
            raise UsageError(f"{wanted:,} of {ranked:,} results: at most {MOST:,} can be chosen")
        return wanted


class Ranking:
    """The `top` results with the highest value of a field, or with the lowest.

    field: a dotted name, such as `result.score`. Values are numbers, compared exactly, or instants;
    a number with more than 309 digits before the point, or 1,000 after it, counts as none. Equal
    values are ordered by the campaign scanned first, then by the task seeded first. recipe: rank
    only results of this one. ranked,
    left_out: number of results with such a value, and without. on_scan: called with the sum of
    these when a part was scanned.
    """

    def __init__(
        self,
        database: Queries,
        fetching: Fetching,
        top: int,
        field: str,
        *,
        ascending: bool = False,
        recipe: int | None = None,
        scan: int = SCAN,
        on_scan: Callable[[int], object] = lambda _: None,
    ) -> None:
        self.left_out = 0
        self.ranked = 0
        self._database = database
        self._fetching = fetching
        self._top = top
        self._field = field
        self._ascending = ascending
        self._recipe = recipe
        self._scan = scan
        self._on_scan = on_scan
        self._campaigns: list[NamedCampaign] = []
        self._heap: list[_Place] = []
        self._first: tuple[NamedCampaign, int] | None = None

    def look(self, campaign: NamedCampaign) -> None:
        """Scan the results of a campaign."""
        self._campaigns.append(campaign)
        part, name = field_words(self._field)
        values = {
            "campaign": campaign.campaign_id,
            "part": part,
            "name": name,
            "ascending": self._ascending,
            "top": self._top,
            "inline": part == "result" and not self._fetching.raw,
            "scan": self._scan,
            "recipe": self._recipe,
        }
        after: int | None = 0
        while after is not None:
            (row,) = self._database.rows("best_results", worst=self._worst(), after=after, **values)
            for task, rank in zip(row["tasks"] or (), row["ranks"] or (), strict=True):
                self._note(rank, task)
            ranked = row["ranked"] + self._look_at_large(campaign, row["large"] or [])
            self.ranked += ranked
            self.left_out += row["seen"] - ranked
            if row["seen"] and self._first is None:
                self._first = campaign, after
            self._on_scan(self.ranked + self.left_out)
            after = row["last"]

    def best(self) -> Iterator[tuple[NamedCampaign, Result]]:
        """Return the best of the scanned results, best first, each with its campaign.

        Raise `UsageError` if there are results, but none with such a value.
        """
        if self.left_out and not self._heap:
            raise UsageError(
                f"none of {self.left_out:,} results has a number in {self._field!r}; "
                f"in the first one, these are numbers: {', '.join(self._known()) or 'none'}"
            )
        places = sorted(self._heap, reverse=True)
        tasks = ((-number, -task) for _, number, task in places)
        return fetched(self._database, self._fetching, self._campaigns, tasks)

    def _look_at_large(self, campaign: NamedCampaign, tasks: list[int]) -> int:
        """Rank large results; return how many have the value."""
        ranked = 0
        for row in fetched_rows(self._database, self._fetching, campaign, tasks):
            rank = rank_of(dotted(row, self._field))
            if rank is not None:
                self._note(rank, row["task_id"])
                ranked += 1
        return ranked

    def _note(self, rank: Decimal, task: int) -> None:
        place = (
            rank.copy_negate() if self._ascending else rank,  # unary minus would round
            1 - len(self._campaigns),
            -task,
        )
        if len(self._heap) < self._top:
            heapq.heappush(self._heap, place)
        else:
            heapq.heappushpop(self._heap, place)

    def _worst(self) -> Decimal | None:
        """Return the value that a better result must exceed; None with fewer than `top` so far."""
        if len(self._heap) < self._top:
            return None
        worst = self._heap[0][0]
        return worst.copy_negate() if self._ascending else worst

    def _known(self) -> list[str]:
        if self._first is None:
            return []
        campaign, after = self._first
        rows = self._database.rows("results", campaign=campaign.campaign_id, after=after, limit=1)
        return sorted(name for row in rows for name in _numbers("", self._fetching.of(row)))


def fetched_rows(
    database: Queries, fetching: Fetching, campaign: NamedCampaign, tasks: list[int]
) -> Iterator[Row]:
    """Yield the rows of large results, each fetched when it is requested."""
    for begin in range(0, len(tasks), PAGE):
        page = tasks[begin : begin + PAGE]
        for row in database.rows("results_of", campaign=campaign.campaign_id, tasks=page):
            yield fetching.of(row)


def fetched(
    database: Queries,
    fetching: Fetching,
    campaigns: Sequence[NamedCampaign],
    tasks: Iterable[tuple[int, int]],
) -> Iterator[tuple[NamedCampaign, Result]]:
    """Yield the results of tasks in this order, a page at a time, each with its campaign.

    tasks: for each the place of its campaign in `campaigns`, and its id.
    """
    rest = iter(tasks)
    while page := list(islice(rest, PAGE)):
        found: dict[tuple[int, int], Row] = {}
        for number in {number for number, _ in page}:
            wanted = [task for which, task in page if which == number]
            campaign_id = campaigns[number].campaign_id
            for row in database.rows("results_of", campaign=campaign_id, tasks=wanted):
                found[number, row["task_id"]] = row
        for number, task in page:
            row = found.get((number, task), {})
            if row:  # not removed meanwhile
                campaign = campaigns[number]
                yield campaign, Result(campaign=campaign.path, **fetching.of(row))


def field_words(field: str) -> tuple[str | None, str]:
    """Return part and name of a dotted name; the part is None if a result has no such part."""
    part, dot, name = field.partition(".")
    return part if bool(dot) != (part in _PLAIN) else None, name  # only objects have parts


def dotted(record: object, name: str) -> Any:
    """Return the value at a dotted name, or None; a name itself may contain dots."""
    if not isinstance(record, Mapping):
        return None
    if name in record:
        return record[name]
    outer, dot, rest = name.partition(".")
    return dotted(record.get(outer), rest) if dot else None


def rank_of(value: object) -> Decimal | None:
    """Return the number to rank a value by; None if it is neither a number nor an instant."""
    if isinstance(value, datetime):
        return Decimal(repr(value.timestamp()))
    if isinstance(value, float) and math.isfinite(value):
        return Decimal(repr(value))  # the value of its digits, as in the database
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _BEYOND:
        return Decimal(value)
    return None


def _numbers(prefix: str, record: Mapping[str, Any]) -> Iterator[str]:
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _numbers(f"{prefix}{name}.", value)
        elif rank_of(value) is not None:
            yield f"{prefix}{name}"
