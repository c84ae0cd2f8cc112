"""Judging of places by the others, without those that clearly stand out."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from taskq.diagnosis.evidence import (
    LEAST_RUNS,
    Comparison,
    RunTimeSums,
    Slowness,
    compare,
    slowness,
    tail_of,
)
from taskq.diagnosis.sample import BAD, TELLING, AttemptGroup, by_place

Ends = Mapping[str, tuple[int, int]]
Times = Mapping[str, RunTimeSums]

_ROUNDS: Final = 3

#: Hosts, and their part of all, from which on something else than they must be at fault.
_LEAST_SPLIT: Final = 3
_SPLIT: Final = 0.4

#: Attempts that succeed in other campaigns, so that a place works; the part that may fail there.
LEAST_WELL: Final = 5
_FEW_BAD: Final = 0.1

#: The least factor of slowness that is reported: machines differ by less.
NOTABLE: Final = 1.5


class Judgement:
    """Places compared with the others that do not stand out themselves.

    One bad place would make others look good, and slow places would make others look fast. So, as
    in judge_hosts() in SQL, the measure leaves out places that stand out, and all are compared
    again until nothing changes, at most three times. groups: attempts by the name of the place;
    outdated ones do not count. looks: how many such comparisons of places are made at once.

    A place also stands out if one class of errors does in one campaign, though others fail as often
    there as elsewhere, and hide it among all failures.
    """

    def __init__(self, groups: Mapping[str, Iterable[AttemptGroup]], looks: int = 1) -> None:
        self._tail = tail_of(looks * len(groups))
        groups = {name: _evidence(some) for name, some in groups.items()}
        self.ends = {name: ends(some) for name, some in groups.items()}
        self._classes = {name: bad_by_class(some) for name, some in groups.items()}
        cells = {cell for found in self._classes.values() for cell in found}
        self._cells = len(cells)
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
            if any(runs.number >= LEAST_RUNS for runs in found.values())
        ]
        self._measure()
        for _ in range(_ROUNDS):
            found = {name for name in some_bad if is_failing(self.comparison(name))}
            slow = {name for name in some_runs if is_slow(self.slowness(name))}
            if (found, slow) == (self.failing, self.slow):
                break
            self.failing, self.slow = found, slow
            self._measure()

    def comparison(
        self, name: str, chosen: Iterable[AttemptGroup] | None = None
    ) -> Comparison | None:
        """Return the shares of bad attempts there, or in a part of it, and elsewhere."""
        known = self.ends.get(name, {})
        here = known if chosen is None else ends(_evidence(chosen))
        own = {} if name in self.failing else known
        elsewhere = {}
        for campaign in here:
            part, whole = self._all_ends.get(campaign, (0, 0))
            own_part, own_whole = own.get(campaign, (0, 0))
            elsewhere[campaign] = part - own_part, whole - own_whole
        found = compare(here, elsewhere, self._tail)
        if is_failing(found) or self._cells < 2:  # noqa: PLR2004
            return found
        bad = self._classes.get(name, {}) if chosen is None else bad_by_class(_evidence(chosen))
        return self._of_class(name, here, bad) or found

    def _of_class(
        self, name: str, here: Ends, bad: Mapping[tuple[str, str], int]
    ) -> Comparison | None:
        """Return the comparison of the class that most more attempts end in there, if clearly."""
        own = {} if name in self.failing else self._classes.get(name, {})
        own_ends = {} if name in self.failing else self.ends.get(name, {})
        clear = []
        for (campaign, error_class), number in bad.items():
            part = self._all_classes.get((campaign, error_class), 0)
            whole = self._all_ends.get(campaign, (0, 0))[1] - own_ends.get(campaign, (0, 0))[1]
            others = part - own.get((campaign, error_class), 0), whole
            its = {campaign: (number, here[campaign][1])}
            found = compare(its, {campaign: others}, self._tail / self._cells)
            if found is not None and found.is_worse:
                excess = number - here[campaign][1] * found.elsewhere.share
                clear.append((excess, campaign, error_class, found))
        if not clear:
            return None
        _, campaign, error_class, found = max(clear, key=lambda it: it[:3])
        return replace(found, campaign=campaign, error_class=error_class)

    def slowness(self, name: str, chosen: Iterable[AttemptGroup] | None = None) -> Slowness | None:
        """Return how many times as long as elsewhere attempts take there, or in a part of it."""
        known = self.times.get(name, {})
        here = known if chosen is None else run_times(_evidence(chosen))
        own = {} if name in self.slow else known
        nothing = RunTimeSums()
        elsewhere = {
            campaign: self._all_times.get(campaign, nothing) - own.get(campaign, nothing)
            for campaign in here
        }
        return slowness(here, elsewhere, self._tail)

    def fails_only_in(self, name: str) -> str:
        """Return the one campaign that fails there, if others clearly work there; else nothing.

        These have some successful attempts there, and their share of bad ones is usual.
        """
        here = self.ends.get(name, {})
        worst = max(sorted(here), key=lambda campaign: here[campaign][0], default="")
        others = {campaign: found for campaign, found in here.items() if campaign != worst}
        bad = sum(part for part, _ in others.values())
        whole = sum(every for _, every in others.values())
        if whole - bad < LEAST_WELL:
            return ""
        elsewhere = {}
        for campaign in others:
            part, every = self._all_ends.get(campaign, (0, 0))
            own_part, own = (0, 0) if name in self.failing else here[campaign]
            elsewhere[campaign] = part - own_part, every - own
        found = compare(others, elsewhere, self._tail)
        usual = _FEW_BAD if found is None else max(_FEW_BAD, found.elsewhere.share)
        return worst if bad <= usual * whole else ""

    def _measure(self) -> None:
        """Add up the attempts of the places that do not stand out."""
        counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for name, found in self.ends.items():
            for campaign, (part, whole) in found.items() if name not in self.failing else ():
                counts[campaign][0] += part
                counts[campaign][1] += whole
        self._all_classes: Counter[tuple[str, str]] = Counter()
        for name, bad in self._classes.items():
            if name not in self.failing:
                self._all_classes.update(bad)
        self._all_ends = {campaign: (part, whole) for campaign, (part, whole) in counts.items()}
        self._all_times: dict[str, RunTimeSums] = defaultdict(RunTimeSums)
        for name, times in self.times.items():
            for campaign, runs in times.items() if name not in self.slow else ():
                self._all_times[campaign] += runs


def _evidence(groups: Iterable[AttemptGroup]) -> list[AttemptGroup]:
    """Return the attempts that count.

    All that an agent held when it was lost count as one, of the campaign of which it held most.
    Sums do not know agents: there those of a campaign on a host count as one.
    """
    found: list[AttemptGroup] = []
    lost: dict[tuple[str, str, int | str], AttemptGroup] = {}
    for group in groups:
        if group.outdated:
            continue
        if group.outcome != "lost":
            found.append(group)
            continue
        agent = group.host, group.site, group.session_id or group.campaign
        if agent not in lost or lost[agent].attempts < group.attempts:
            lost[agent] = group
    return [*found, *(replace(group, attempts=1) for group in lost.values())]


def is_failing(found: Comparison | None) -> bool:
    """Return whether attempts clearly fail more often than elsewhere."""
    return found is not None and found.is_worse


def is_split(failing: int, hosts: int) -> bool:
    """Return whether so many of all hosts fail that none of them is the exception."""
    return failing >= _LEAST_SPLIT and failing >= _SPLIT * hosts


def split_words(hosts: int) -> str:
    """Return what a split says."""
    return (
        f"so many of {hosts:,} hosts are no exception: something differs between these and the "
        "others, such as their system, their processors, or which tasks they got"
    )


def namesakes(
    name: str, groups: Iterable[AttemptGroup], judged: Judgement
) -> tuple[Sequence[str], Sequence[str]]:
    """Return at which sites hosts of one name fail, and at which they do well, if there are both.

    They are different machines then, such as two that call themselves node01.
    """
    sites = by_place(groups, "site")
    if len(sites) < 2:  # noqa: PLR2004
        return (), ()
    fails = sorted(site for site, its in sites.items() if is_failing(judged.comparison(name, its)))
    classes: Counter[str | None] = Counter()
    for site in fails:
        for it in sites[site]:
            classes[it.error_class] += it.attempts * (it.outcome in BAD)
    worst = max(classes, key=classes.__getitem__, default=None)
    well = sorted(
        site for site, its in sites.items() if site not in fails and _hardly_fails_so(its, worst)
    )
    return (fails, well) if fails and well else ((), ())


def _hardly_fails_so(groups: Iterable[AttemptGroup], error_class: str | None) -> bool:
    """Return whether more attempts succeed than end in a class; what else fails is no matter."""
    done = bad = 0
    for group in groups:
        done += group.attempts * (group.outcome == "done")
        bad += group.attempts * (group.outcome in BAD and group.error_class == error_class)
    return done > bad


def is_slow(found: Slowness | None) -> bool:
    """Return whether attempts clearly take much longer than elsewhere."""
    return found is not None and found.is_slower and found.times >= NOTABLE


def failing_elsewhere_too(groups: Sequence[AttemptGroup]) -> list[AttemptGroup]:
    """Return the attempts of a site without its host with most failures of the most frequent class.

    Other classes count as done. One host is not evidence about its site, nor are two that fail for
    different reasons.
    """
    bad: Counter[tuple[str | None, str]] = Counter()
    for group in groups:
        if group.outcome in BAD and not group.outdated:
            bad[group.error_class, group.host] += group.attempts
    classes: Counter[str | None] = Counter()
    for (error_class, _), attempts in bad.items():
        classes[error_class] += attempts
    if not classes:
        return list(groups)
    worst = classes.most_common(1)[0][0]
    host = max((it for it in bad if it[0] == worst), key=bad.__getitem__)[1]
    return [
        replace(group, outcome="done")
        if group.outcome in BAD and group.error_class != worst
        else group
        for group in groups
        if group.host != host
    ]


def slow_elsewhere_too(
    groups: Sequence[AttemptGroup], name: str, judgement: Judgement
) -> list[AttemptGroup]:
    """Return the attempts of a site without the host that adds most to its slowness."""
    hosts = by_place(groups, "host")

    def excess(host: str) -> float:
        found = judgement.slowness(name, hosts[host])
        runs = sum(group.attempts for group in hosts[host] if group.outcome == "done")
        return runs * math.log(found.times) if found else 0.0

    slowest = max(sorted(hosts), key=excess, default=None)
    return [group for group in groups if group.host != slowest]


def failing_hosts_apart(groups: Iterable[AttemptGroup], failing: set[str]) -> dict[str, list[str]]:
    """Return by site its failing hosts, if they are few, or its other hosts clearly do better."""
    sites: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    for group in groups:
        if group.outcome in TELLING:
            bad, whole = sites[group.site].get(group.host, (0, 0))
            bad += group.attempts * (group.outcome in BAD)
            sites[group.site][group.host] = bad, whole + group.attempts
    found = {}
    for site, hosts in sites.items():
        bad_hosts, rest = sorted(hosts.keys() & failing), hosts.keys() - failing
        if bad_hosts and rest:
            few = len(bad_hosts) < len(rest)
            if few or 2 * _share(hosts, rest) <= _share(hosts, bad_hosts):
                found[site] = bad_hosts
    return found


def _share(hosts: Mapping[str, tuple[int, int]], names: Iterable[str]) -> float:
    """Return the share of bad attempts on some hosts of a site."""
    bad, whole = map(sum, zip(*(hosts[name] for name in names), strict=True))
    return bad / whole


def ends(groups: Iterable[AttemptGroup]) -> Ends:
    """Return by campaign how many attempts were bad, and how many were bad or done."""
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for group in groups:
        if group.outcome in TELLING:
            bad, whole = found[group.campaign]
            found[group.campaign] = (
                bad + group.attempts * (group.outcome in BAD),
                whole + group.attempts,
            )
    return dict(found)


def bad_by_class(groups: Iterable[AttemptGroup]) -> Mapping[tuple[str, str], int]:
    """Return by campaign and class how many attempts were bad; without those that have none."""
    found: Counter[tuple[str, str]] = Counter()
    for group in groups:
        if group.outcome in BAD and group.error_class:
            found[group.campaign, group.error_class] += group.attempts
    return found


def run_times(groups: Iterable[AttemptGroup]) -> Times:
    """Return by campaign how long successful attempts ran."""
    found: dict[str, RunTimeSums] = defaultdict(RunTimeSums)
    for group in groups:
        if group.outcome == "done":
            found[group.campaign] += group.times
    return dict(found)
