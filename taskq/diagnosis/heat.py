"""A heat map: failures, run times or results of hosts or sites over time, from sums of ends.

The sums cover a week, whatever the number of attempts. A map has some places, those first at which
most is wrong, and the same number of times for each.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Final, Literal, TypeAlias

from taskq.db.access import Queries
from taskq.diagnosis.bans import PlaceKind
from taskq.diagnosis.ends import MOST_SUMS, EndSum, read_ends
from taskq.diagnosis.evidence import RunTimeSums, share
from taskq.diagnosis.sample import BAD, TELLING

Measure: TypeAlias = Literal["failures", "runs", "results"]

#: Spans of time, each with the duration of a cell.
SPANS: Final[Mapping[str, tuple[str, timedelta, timedelta]]] = {
    "4h": ("4 hours", timedelta(hours=4), timedelta(minutes=10)),
    "1d": ("a day", timedelta(days=1), timedelta(hours=1)),
    "7d": ("a week", timedelta(days=7), timedelta(hours=6)),
}
#: Places of a map.
MOST_PLACES: Final = 20
#: Where the levels of a cell begin: shares that failed; run times, as multiples of the usual one;
#: means of results, in standard deviations from that of all.
_LEVELS: Final[Mapping[Measure, tuple[float, ...]]] = {
    "failures": (0.02, 0.1, 0.3, 0.7),
    "runs": (1.25, 1.5, 2.0, 4.0),
    "results": (0.5, 1.0, 2.0, 3.0),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """What ended at a place in a time.

    value: the share that failed, the typical run time in seconds, or the mean of the results; None
    if nothing says. level: from 0, as usual, to 4. attempts: of which it is made.
    """

    value: float | None
    level: int
    attempts: int


@dataclass(frozen=True, slots=True)
class HeatRow:
    """A place over time. name: empty if agents gave none. whole: of the whole span."""

    name: str
    whole: Cell
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Places over time.

    starts: when each cell begins. places: how many there are, of which `rows` has some. whole: all
    of them together. has_results: whether results have a number that ranks them. is_cut: whether
    there are more sums than were read, so that cells with little work may be missing.
    """

    rows: Sequence[HeatRow]
    starts: Sequence[datetime]
    places: int
    whole: Cell
    has_results: bool
    is_cut: bool


class _Sum:
    """Sums of some ends."""

    def __init__(self, sums: Iterable[EndSum]) -> None:
        self.attempts = self.bad = self.done = self.numbers = 0
        self.runs = RunTimeSums()
        self.number_sum = self.number_squares = 0.0
        for it in sums:
            if it.outcome not in TELLING:
                continue
            self.attempts += it.attempts
            if it.outcome in BAD:
                self.bad += it.attempts
                continue
            self.done += it.attempts
            self.runs += RunTimeSums(it.attempts, it.logs, it.squares)
            self.numbers += it.numbers
            self.number_sum += it.number_sum
            self.number_squares += it.number_squares

    def value(self, measure: Measure) -> float | None:
        """Return what a cell shows."""
        if measure == "failures":
            return self.bad / self.attempts if self.attempts else None
        if measure == "runs":
            return math.exp(self.runs.mean) if self.done else None
        return self.number_sum / self.numbers if self.numbers else None

    @property
    def spread(self) -> float:
        """The standard deviation of the results."""
        if not self.numbers:
            return 0.0
        mean = self.number_sum / self.numbers
        return math.sqrt(max(self.number_squares / self.numbers - mean**2, 0.0))

    def of(self, measure: Measure) -> int:
        """Return of how many attempts a value is made."""
        return {"failures": self.attempts, "runs": self.done, "results": self.numbers}[measure]


def read_heat(
    database: Queries, path: str, kind: PlaceKind, measure: Measure, *, span: str, first: int = 0
) -> HeatMap:
    """Read the heat map of a campaign and all below it.

    first: the place from which on it has rows, from 0. Raise `NotFound` if there is no such
    campaign.
    """
    _, whole_span, width = SPANS[span]
    until: datetime = database.value("usage_until")
    starts = times(until, whole_span, width)
    of_places: dict[str, list[EndSum]] = defaultdict(list)
    ends = read_ends(database, path, [kind], starts[0])
    for it in ends:
        of_places[(it.host if kind == "host" else it.site) or ""].append(it)
    sums = {name: _Sum(its) for name, its in of_places.items()}
    whole = _Sum(ends)
    known = {name: it for name, it in sums.items() if it.attempts}
    names = sorted(known, key=lambda name: (*_rank(known[name], whole, measure), name))
    shown = names[first : first + MOST_PLACES]
    cells: dict[tuple[str, int], list[EndSum]] = defaultdict(list)
    further = read_ends(database, path, [kind, "time"], starts[0], shown) if shown else []
    for it in further:
        if it.starts is not None and it.starts >= starts[0]:
            name = (it.host if kind == "host" else it.site) or ""
            cells[name, min(int((it.starts - starts[0]) / width), len(starts) - 1)].append(it)
    rows = [
        HeatRow(
            name,
            _cell(known[name], whole, measure),
            [_cell(_Sum(cells[name, place]), whole, measure) for place in range(len(starts))],
        )
        for name in shown
    ]
    return HeatMap(
        rows,
        starts,
        len(names),
        _cell(whole, whole, measure),
        whole.numbers > 0,
        max(len(ends), len(further)) >= MOST_SUMS,
    )


def times(until: datetime, span: timedelta, width: timedelta) -> list[datetime]:
    """Return when cells begin: as many as fit into the span, at whole widths; the last has now."""
    until = until.astimezone(timezone.utc)
    day = until.replace(hour=0, minute=0, second=0, microsecond=0)
    last = day + (until - day) // width * width
    number = round(span / width)
    return [last - width * (number - 1 - place) for place in range(number)]


def _rank(its: _Sum, whole: _Sum, measure: Measure) -> tuple[float, float]:
    """Return where a place stands: those first at which most is clearly wrong, then most work."""
    value, usual = its.value(measure), whole.value(measure)
    if measure == "failures":
        return -share(its.bad, its.attempts).low, -its.attempts
    if value is None or usual is None:
        return math.inf, -its.attempts
    if measure == "runs":
        return -value / usual, -its.attempts
    return -abs(value - usual), -its.attempts


def _cell(its: _Sum, whole: _Sum, measure: Measure) -> Cell:
    value, usual = its.value(measure), whole.value(measure)
    if value is None or usual is None:
        return Cell(None, 0, its.attempts)
    if measure == "failures":
        off = value
    elif measure == "runs":
        off = value / usual if usual else 1.0
    else:
        off = abs(value - usual) / whole.spread if whole.spread else 0.0
    return Cell(value, sum(off >= begin for begin in _LEVELS[measure]), its.of(measure))
