"""Judging of places by the others, without those that clearly stand out."""

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

    One bad place would make others look good, and slow places would make others look fast. So, as
    in judge_hosts() in SQL, places that stand out are left out of the measure, and all are compared
    anew until nothing changes, at most three times. groups: attempts by the name of the place.
    """

    def __init__(self, groups: Mapping[str, Iterable[AttemptGroup]]) -> None:
        self.ends = {name: ends(some) for name, some in groups.items()}
        self.times = {name: run_times(some) for name, some in groups.items()}
        self.failing: set[str] = set()
        self.slow: set[str] = set()
        # Most places cannot stand out: nothing fails there, or hardly anything ran.
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
        """Return the shares of bad attempts there and elsewhere."""
        here = self.ends.get(name, {})
        own = {} if name in self.failing else here
        elsewhere = {}
        for campaign in here:
            part, whole = self._all_ends.get(campaign, (0, 0))
            own_part, own_whole = own.get(campaign, (0, 0))
            elsewhere[campaign] = part - own_part, whole - own_whole
        return compare(here, elsewhere)

    def slowness(self, name: str) -> Slowness | None:
        """Return how many times as long as elsewhere attempts take there."""
        here = self.times.get(name, {})
        own = {} if name in self.slow else here
        nothing = RunTimeSums()
        elsewhere = {
            campaign: self._all_times.get(campaign, nothing) - own.get(campaign, nothing)
            for campaign in here
        }
        return slowness(here, elsewhere)

    def _measure(self) -> None:
        """Add up the attempts of the places that do not stand out."""
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


#: The least factor of slowness that is reported: machines differ by less.
NOTABLE: Final = 1.5


def is_failing(found: Comparison | None) -> bool:
    """Return whether attempts clearly fail more often than elsewhere."""
    return found is not None and found.is_worse


def is_slow(found: Slowness | None) -> bool:
    """Return whether attempts clearly take much longer than elsewhere."""
    return found is not None and found.is_slower and found.times >= NOTABLE


def failing_hosts_apart(groups: Iterable[AttemptGroup], failing: set[str]) -> dict[str, list[str]]:
    """Return by site its failing hosts, unless they are at least half of its hosts."""
    sites: dict[str, set[str]] = defaultdict(set)
    for one in groups:
        sites[one.site].add(one.host)
    found = {site: sorted(names & failing) for site, names in sites.items()}
    return {site: bad for site, bad in found.items() if bad and 2 * len(bad) < len(sites[site])}


def ends(groups: Iterable[AttemptGroup]) -> Ends:
    """Return by campaign how many attempts were bad, and how many were bad or done."""
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
