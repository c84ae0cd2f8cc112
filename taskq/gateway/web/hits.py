"""Best results of a campaign by a number in them, and its distribution, in a bounded sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from taskq.db.access import Queries
from taskq.gateway.web.molecules import smiles_of

#: Parts of a campaign to look at, and attempts to read of each.
STRETCHES: Final = 50
EACH: Final = 200
#: The same for the results whose fields a viewer can choose.
_FIELDS_OF: Final = (4, 5)
MOST_FIELDS: Final = 50
_DEEPEST: Final = 5
TOP: Final = 10
BINS: Final = 24


@dataclass(frozen=True, slots=True)
class Hit:
    """A result among the best. key: its task's. smiles: a molecule of its task, or empty.

    recipe: see `Result`.
    """

    key: str
    host: str
    value: float
    smiles: str
    recipe: int | None


@dataclass(frozen=True, slots=True)
class Hits:
    """The best of a sample of a campaign's results, and the distribution of their numbers.

    seen: results in the sample. numbers: results with a number in the field. bins: the count of
    numbers in each equal part of the range from low to high.
    """

    field: str
    seen: int
    numbers: int
    low: float
    median: float
    high: float
    bins: Sequence[int]
    best: Sequence[Hit]


def numeric_fields(database: Queries, campaign: int) -> list[str]:
    """Return the dotted names of numbers that most of some results of a campaign have, sorted."""
    stretches, each = _FIELDS_OF
    rows = database.rows(
        "result_sample", campaign=campaign, name=None, stretches=stretches, each=each
    )
    names = Counter(name for row in rows for name in _numbers("", row["result"]))
    return sorted(name for name, _ in names.most_common(MOST_FIELDS))


def read_hits(database: Queries, campaign: int, field: str, *, ascending: bool) -> Hits | None:
    """Read a sample of a campaign's results; None if no result has a number there."""
    rows = database.rows(
        "result_sample", campaign=campaign, name=field, stretches=STRETCHES, each=EACH
    )
    found = sorted((row["value"], row["task_id"]) for row in rows if row["value"] is not None)
    if not found:
        return None
    values = [value for value, _ in found]
    best = found[:TOP] if ascending else found[::-1][:TOP]
    return Hits(
        field=field,
        seen=len(rows),
        numbers=len(found),
        low=values[0],
        median=values[len(values) // 2],
        high=values[-1],
        bins=_bins(values),
        best=_named(database, campaign, best),
    )


def _named(database: Queries, campaign: int, best: Sequence[tuple[float, int]]) -> list[Hit]:
    rows = database.rows("results_of", campaign=campaign, tasks=[task for _, task in best])
    known = {row["task_id"]: row for row in rows}
    return [
        Hit(
            row["key"],
            row["host"],
            value,
            smiles_of(row["payload"], row["result"]),
            row["recipe"],
        )
        for value, task in best
        if (row := known.get(task)) is not None  # not removed meanwhile
    ]


def _bins(values: Sequence[float]) -> list[int]:
    """Count sorted values in equal parts of their range."""
    low, high = values[0], values[-1]
    if low == high:
        return [len(values)]
    bins = [0] * BINS
    for value in values:
        bins[min(int((value - low) / (high - low) * BINS), BINS - 1)] += 1
    return bins


def _numbers(prefix: str, value: Any) -> Iterator[str]:
    if not isinstance(value, Mapping):
        return
    for name, inner in value.items():
        if isinstance(inner, Mapping) and prefix.count(".") < _DEEPEST:
            yield from _numbers(f"{prefix}{name}.", inner)
        elif isinstance(inner, (int, float)) and not isinstance(inner, bool):
            yield f"{prefix}{name}"
