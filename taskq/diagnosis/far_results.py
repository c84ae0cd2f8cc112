"""Hosts of which a part of the results lies far from all others, as where a fault comes by chance.

A result is far if it lies outside the range of those next to it, on other hosts, by more than twice
its width. The least and the largest of these are left out: another such host may have them. How
many results are far by nature is seen on the other hosts. Results of more consecutive claims than
there are neighbours on a side are left out: these may be a group of the file that nobody else has.

This accuses nobody: a host may be the only one that can do tasks whose results lie there. See
`odd_results`, which finds where most results lie on one side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from taskq.diagnosis.evidence import Comparison, chance_of, compare
from taskq.diagnosis.failing_places import sites_at_fault
from taskq.diagnosis.judging import Judgement, is_failing
from taskq.diagnosis.sample import AttemptGroup, bad_attempts, by_place, ended_alike
from taskq.diagnosis.stretches import LEAST_HOSTS, NEAR, Neighbour, stretches
from taskq.model.words import percent

_WIDTHS: Final = 2
#: Far results of a host below which nothing is concluded.
_LEAST: Final = 3
#: The probability, by chance, that a host has so many which agrees with others of its site.
_LEANING: Final = 0.01


@dataclass(frozen=True, slots=True)
class FarResults:
    """A host with far results. first: the place of the first of these.

    is_clear: whether it clearly has more of them than others; else it may have.
    """

    host: str
    is_clear: bool
    evidence: str
    first: int


def far_apart(
    results: Sequence[Neighbour], field: str, sites: Mapping[str, str]
) -> Iterator[FarResults]:
    """Yield the hosts that have, or may have, more results far from all others than others have.

    results: with numbers, in the order of claims. sites: of hosts; those of a site where several
    have more are compared with other sites.
    """
    # Of a stretch, whose results share their neighbours, the part that is far.
    parts: dict[str, list[float]] = defaultdict(list)
    far: dict[str, list[Neighbour]] = defaultdict(list)
    for own, near in stretches(results):
        if len(near) == 2 * NEAR and len(own) <= NEAR:
            _, low, *_, high, _ = sorted(it.number for it in near)
            most = _WIDTHS * (high - low)
            some = [it for it in own if not low - most <= it.number <= high + most]
            parts[own[0].host].append(len(some) / len(own))
            far[own[0].host] += some
    if len(parts) < LEAST_HOSTS:
        return
    counts = {host: (round(sum(some)), len(some)) for host, some in parts.items()}
    groups = [
        ended_alike("", host, sites.get(host, ""), error_class, attempts)
        for host, (bad, whole) in counts.items()
        for error_class, attempts in (("far", bad), (None, whole - bad))
    ]
    judged = Judgement(by_place(groups, "host"))
    at_fault = sites_at_fault(groups, judged, 1)
    bad_sites = set(at_fault.names) if at_fault else set()
    for host, (bad, whole) in counts.items():
        site = sites.get(host, "")
        rest = [it for it in groups if it.site not in bad_sites] if site in bad_sites else None
        found = judged.comparison(host) if rest is None else _compared(bad, whole, rest)
        if found is None or bad < _LEAST:
            continue
        is_clear = is_failing(found)
        if is_clear or chance_of(bad, whole, found.elsewhere.high) <= _LEANING:
            text = _evidence(found, far[host], results, field)
            yield FarResults(host, is_clear, text, far[host][0].place)


def _compared(bad: int, whole: int, rest: Sequence[AttemptGroup]) -> Comparison | None:
    return compare({"": (bad, whole)}, {"": (bad_attempts(rest), sum(it.attempts for it in rest))})


def _evidence(
    found: Comparison, far: Sequence[Neighbour], results: Sequence[Neighbour], field: str
) -> str:
    others = [it.number for it in results if it.host != far[0].host]
    return (
        f"{percent(found.here.share)} of them ({found.here.interval}) have {field} far outside "
        f"the range of other hosts' results next to them, elsewhere "
        f"{percent(found.elsewhere.share)} ({found.elsewhere.interval}): their median is "
        f"{median(it.number for it in far):.6g}, elsewhere {median(others):.6g}"
    )
