"""Which sites or hosts have most failures of a class, and clearly fail more than others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from taskq.diagnosis.bans import PlaceKind
from taskq.diagnosis.judging import (
    Judgement,
    failing_elsewhere_too,
    failing_hosts_apart,
    is_failing,
    is_split,
)
from taskq.diagnosis.sample import AttemptGroup, bad_attempts, by_place
from taskq.model.words import percent

#: The part of all failures that places at fault must have.
_MOST: Final = 0.5
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class AtFault:
    """Places at fault, worst first. text: how often they fail, and how often the others."""

    kind: PlaceKind
    names: Sequence[str]
    text: str


def places_at_fault(groups: Sequence[AttemptGroup], looks: int) -> AtFault | None:
    """Return the sites, else the hosts, at fault for one class; None if neither are.

    groups: of one campaign; only attempts that ended in this class count as bad. looks: how many
    classes are judged at once.
    """
    hosts = by_place(groups, "host")
    judged = Judgement(hosts, looks)
    if (sites := sites_at_fault(groups, judged, looks)) is not None:
        return sites
    found = hosts_at_fault(groups, judged)
    return None if found is None or is_split(len(found.names), len(hosts)) else found


def sites_at_fault(groups: Sequence[AttemptGroup], judged: Judgement, looks: int) -> AtFault | None:
    """Return the sites at fault. judged: the hosts."""
    sites = by_place(groups, "site")
    # A site is at fault if several hosts fail even without its few bad ones.
    apart = failing_hosts_apart(groups, judged.failing)
    of_sites = {
        name: [group for group in some if group.host not in apart.get(name, ())]
        for name, some in sites.items()
    }
    judged_sites = Judgement(of_sites, looks)
    names = [
        name
        for name in _worst_first(judged_sites, sites)
        if is_failing(judged_sites.comparison(name, failing_elsewhere_too(of_sites[name])))
    ]
    return _at_fault("site", names, groups, judged_sites)


def hosts_at_fault(groups: Sequence[AttemptGroup], judged: Judgement) -> AtFault | None:
    """Return the hosts at fault. judged: the hosts."""
    names = _worst_first(judged, by_place(groups, "host"))
    return _at_fault("host", names, groups, judged)


def _worst_first(judged: Judgement, places: dict[str, list[AttemptGroup]]) -> list[str]:
    """Return the places that fail more, most failures first."""
    names = judged.failing - {""}
    return sorted(names, key=lambda name: (-bad_attempts(places[name]), name))


def _at_fault(
    kind: PlaceKind, names: Sequence[str], groups: Sequence[AttemptGroup], judged: Judgement
) -> AtFault | None:
    places = by_place(groups, kind)
    theirs = sum(bad_attempts(places[name]) for name in names)
    if theirs <= _MOST * bad_attempts(groups):
        return None
    return AtFault(kind, names, _evidence("at" if kind == "site" else "on", names, judged))


def _evidence(where: str, names: Sequence[str], judged: Judgement) -> str:
    """Return how often the worst places fail, and how often the others."""
    parts = []
    for name in names[:_SHOWN]:
        found = judged.comparison(name)
        if found is not None:
            here = found.here
            parts.append(
                f"{percent(here.share)} of {here.attempts:,} attempts {where} {name} "
                f"({here.interval})"
            )
    more = f" and {where} {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    found = judged.comparison(names[0])
    elsewhere = ""
    if found is not None:
        others = found.elsewhere
        elsewhere = f", elsewhere {percent(others.share)} ({others.interval})"
    return f"{', '.join(parts)}{more} fail this way{elsewhere}"
