"""Judging of places beside the others: those that clearly stand out are no measure for the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from taskq.diagnosis.evidence import (
    LEAST_RUNS,
    Comparison,
    RunTimeSums,
    Slowness,
    compare,
    slowness,
)
from taskq.diagnosis.sample import BAD, TELLING, AttemptGroup

Ends = Mapping[str, tuple[int, int]]
Times = Mapping[str, RunTimeSums]

_ROUNDS: Final = 3


class Judgement:
    """Places compared with the others that do not stand out themselves.

    As in judge_hosts() in SQL, one bad place would make others look well, and slow ones others
    fast. So who stands out is found, left out of the measure, and all are compared anew, until that
    changes nothing. groups: attempts by the name of the place.
    """

    def __init__(self, groups: Mapping[str, Iterable[AttemptGroup]]) -> None:
        self.ends = {name: ends(some) for name, some in groups.items()}
        self.times = {name: run_times(some) for name, some in groups.items()}
        self.failing: set[str] = set()
        self.slow: set[str] = set()
        # Most places stand out for nothing: nothing fails, or hardly anything ran.
        some_bad = [
            name for name, found in self.ends.items() if any(bad for bad, _ in found.values())
        ]
        some_runs = [
            name
            for name, found in self.times.items()
            if any(one.number >= LEAST_RUNS for one in found.values())
        ]
        self._measure()
        for _ in range(_ROUNDS):
            found = {one for one in some_bad if is_failing(self.comparison(one))}
            slow = {one for one in some_runs if is_slow(self.slowness(one))}
            if (found, slow) == (self.failing, self.slow):
                break
            self.failing, self.slow = found, slow
            self._measure()

    def comparison(self, name: str) -> Comparison | None:
        """Return the share of bad attempts there beside that elsewhere."""
        here = self.ends.get(name, {})
        own = {} if name in self.failing else here
        elsewhere = {}
        for campaign in here:
            part, whole = self._all_ends.get(campaign, (0, 0))
            own_part, own_whole = own.get(campaign, (0, 0))
            elsewhere[campaign] = part - own_part, whole - own_whole
        return compare(here, elsewhere)

    def slowness(self, name: str) -> Slowness | None:
        """Return how long attempts take there beside those elsewhere."""
        here = self.times.get(name, {})
        own = {} if name in self.slow else here
        nothing = RunTimeSums()
        elsewhere = {
            campaign: self._all_times.get(campaign, nothing) - own.get(campaign, nothing)
            for campaign in here
        }
        return slowness(here, elsewhere)

    def _measure(self) -> None:
        """Add up what the places come to that do not stand out."""
        counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for name, found in self.ends.items():
            for campaign, (part, whole) in found.items() if name not in self.failing else ():
                counts[campaign][0] += part
                counts[campaign][1] += whole
        self._all_ends = {campaign: (part, whole) for campaign, (part, whole) in counts.items()}
        self._all_times: dict[str, RunTimeSums] = defaultdict(RunTimeSums)
        for name, times in self.times.items():
            for campaign, one in times.items() if name not in self.slow else ():
                self._all_times[campaign] += one


#: Times as long as elsewhere from which on slowness is worth a word: machines differ by less.
NOTABLE: Final = 1.5


def is_failing(found: Comparison | None) -> bool:
    """Return whether attempts clearly fail more often than elsewhere."""
    return found is not None and found.is_worse


def is_slow(found: Slowness | None) -> bool:
    """Return whether attempts clearly take longer than elsewhere, and much."""
    return found is not None and found.is_slower and found.times >= NOTABLE


def failing_hosts_apart(groups: Iterable[AttemptGroup], failing: set[str]) -> dict[str, list[str]]:
    """Return by site its hosts that fail, unless they are most of its hosts."""
    sites: dict[str, set[str]] = defaultdict(set)
    for one in groups:
        sites[one.site].add(one.host)
    found = {site: sorted(names & failing) for site, names in sites.items()}
    return {site: bad for site, bad in found.items() if bad and 2 * len(bad) < len(sites[site])}


def ends(groups: Iterable[AttemptGroup]) -> Ends:
    """Return by campaign how many attempts were bad, of how many that tell something."""
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for one in groups:
        if one.outcome in TELLING:
            bad, whole = found[one.campaign]
            found[one.campaign] = bad + one.attempts * (one.outcome in BAD), whole + one.attempts
    return dict(found)


def run_times(groups: Iterable[AttemptGroup]) -> Times:
    """Return by campaign how long successful attempts ran."""
    found: dict[str, RunTimeSums] = defaultdict(RunTimeSums)
    for one in groups:
        if one.outcome == "done":
            found[one.campaign] += one.times
    return dict(found)
