"""Reading of the latest results, and what is odd about them; kept for views that refresh."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeAlias

from taskq.db.access import Queries
from taskq.diagnosis.bans import PlaceKind
from taskq.diagnosis.ends import Move
from taskq.diagnosis.latest_moves import latest_moves
from taskq.diagnosis.neighbours import times_near
from taskq.diagnosis.odd_results import HostResults, OddResults, odd_results
from taskq.diagnosis.result_shapes import OddShapes, odd_shapes

#: The most attempts that are read.
MOST: Final = 5_000
#: Seconds for which a view that refreshes shows the same readings.
FRESH_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class OddReadings:
    """What is odd about results.

    places: hosts and sites whose results cannot be right. shapes: campaigns with results that
    cannot be ranked. moves: of run times and ranked results. near_by: how long attempts take next
    to those of other places, by their kind and name. claimed: by campaign, when the last task was
    claimed that has succeeded.
    """

    places: Sequence[OddResults] = ()
    shapes: Sequence[OddShapes] = ()
    moves: Sequence[Move] = ()
    near_by: Mapping[PlaceKind, Mapping[str, float]] = field(default_factory=dict)
    claimed: Mapping[str, datetime] = field(default_factory=dict)


def read_odd_results(database: Queries, path: str) -> OddReadings:
    """Return what is odd about the latest results at and below a path."""
    rows = database.rows("latest_results", path=path, most=MOST)
    groups = [HostResults(**row) for row in rows]
    return OddReadings(
        odd_results(groups),
        odd_shapes(groups),
        latest_moves(groups),
        {"host": times_near(groups, "host"), "site": times_near(groups, "site")},
        _last_claims(groups),
    )


def _last_claims(groups: Sequence[HostResults]) -> Mapping[str, datetime]:
    found: dict[str, datetime] = {}
    for it in groups:
        if it.claims:
            found[it.campaign] = max([found.get(it.campaign, it.claims[0]), *it.claims])
    return found


#: Reads what is odd about the results at and below a path.
OddReader: TypeAlias = Callable[[Queries, str], OddReadings]


def kept_odd_results(clock: Callable[[], float] = time.monotonic) -> OddReader:
    """Return a reader for a view that refreshes: it reads each path once in `FRESH_S` seconds."""
    kept: dict[str, tuple[float, OddReadings]] = {}

    def read(database: Queries, path: str) -> OddReadings:
        now = clock()
        if path not in kept or now >= kept[path][0] + FRESH_S:
            for old in [old for old, (at, _) in [*kept.items()] if now >= at + FRESH_S]:
                kept.pop(old, None)
            kept[path] = now, read_odd_results(database, path)
        return kept[path][1]

    return read
