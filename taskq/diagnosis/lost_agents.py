"""Places whose agents are lost again and again, though others come in their place.

A batch system that kills its jobs, a machine that restarts, or memory that is short ends agents
whatever they run: no campaign is at fault, most attempts succeed, and no slot is missing for long.
What is lost at one place within half a lease is one incident, as where a network or a power supply
fails. Incidents are compared with the time for which agents were there: by chance each of them is
at a place with the probability that is its share of that time (the conditional test of Poisson
rates: J. Przyborowski, H. Wilenski, Biometrika 31, 1940, 313).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from taskq.diagnosis.bans import PlaceKind
from taskq.diagnosis.evidence import ERRORS, chance_of
from taskq.diagnosis.sample import AttemptGroup

#: Incidents from which on agents are lost again and again.
_LEAST: Final = 4
#: The probability with which so many incidents are one host's, or all had tasks of one campaign.
_CHANCE: Final = 0.01


@dataclass(frozen=True, slots=True)
class LosingPlace:
    """A host or site whose agents are lost again and again.

    hosts: those where some were. incidents: how often, elsewhere: how often at other places.
    agents, attempts: how many were lost. since, until: of the first and the last of these. only:
    the campaign of which all lost agents had tasks, if that is hardly chance; else empty.
    """

    kind: PlaceKind
    name: str
    hosts: Sequence[str]
    incidents: int
    elsewhere: int
    agents: int
    attempts: int
    since: datetime
    until: datetime
    only: str


@dataclass(slots=True)
class _Session:
    host: str
    site: str
    lease_s: float
    first_at: datetime
    last_at: datetime
    lost_at: datetime | None = None
    lost: int = 0

    @property
    def presence_s(self) -> float:
        return max(0.0, (self.last_at - self.first_at).total_seconds())  # clocks may be set back


def losing_places(groups: Iterable[AttemptGroup]) -> list[LosingPlace]:
    """Return the sites, and the hosts of others, whose agents are lost again and again."""
    known = list(groups)
    sessions = [*_sessions(known)]
    if sum(it.lost > 0 for it in sessions) < _LEAST:
        return []
    by_host = _by(sessions, "host")
    hosts = _standing_out(by_host)
    sites = []
    for name, some in _standing_out(_by(sessions, "site")).items():
        if len({it.host for it in some}) == 1 or not _is_of_one_host(some):
            sites.append(_place("site", name, some, sessions, known))
    named = {it.name for it in sites}
    found = [
        _place("host", name, some, sessions, known)
        for name, some in hosts.items()
        if not {it.site for it in some} & named
    ]
    return [*sites, *found]


def _is_of_one_host(sessions: Sequence[_Session]) -> bool:
    """Return whether one host of a site has all incidents, or hardly so many by chance."""
    hosts = _by(sessions, "host")
    incidents = {name: _incidents(some) for name, some in hosts.items()}
    name = max(sorted(incidents), key=lambda it: incidents[it])
    number, whole = sum(incidents.values()), sum(it.presence_s for it in sessions)
    part = sum(it.presence_s for it in hosts[name]) / whole if whole else 1.0
    return incidents[name] == number or chance_of(incidents[name], number, part) <= _CHANCE


def _sessions(groups: Iterable[AttemptGroup]) -> Iterator[_Session]:
    parts: dict[int, list[AttemptGroup]] = defaultdict(list)
    for group in groups:
        if group.first_at is not None and group.last_at is not None and group.host:
            parts[group.session_id].append(group)
    for some in parts.values():
        lost = [it for it in some if it.outcome == "lost"]
        yield _Session(
            some[0].host,
            some[0].site,
            some[0].lease_s,
            min(it.first_at for it in some if it.first_at),
            max(it.last_at for it in some if it.last_at),
            min((it.last_at for it in lost if it.last_at), default=None),
            sum(it.attempts for it in lost),
        )


def _by(sessions: Iterable[_Session], kind: PlaceKind) -> Mapping[str, list[_Session]]:
    found: dict[str, list[_Session]] = defaultdict(list)
    for it in sessions:
        if name := it.host if kind == "host" else it.site:
            found[name].append(it)
    return found


def _incidents(sessions: Iterable[_Session]) -> int:
    """Return how often agents were lost: those of half a lease count once."""
    lost = sorted((it.lost_at, it.lease_s) for it in sessions if it.lost_at is not None)
    apart = [
        at - before > timedelta(seconds=lease_s / 2)
        for (before, _), (at, lease_s) in pairwise(lost)
    ]
    return len(lost[:1]) + sum(apart)


def _standing_out(places: Mapping[str, list[_Session]]) -> dict[str, list[_Session]]:
    """Return the places with clearly more incidents than their agents' time there explains."""
    incidents = {name: _incidents(some) for name, some in places.items()}
    present = {name: sum(it.presence_s for it in some) for name, some in places.items()}
    number, whole = sum(incidents.values()), sum(present.values())
    return {
        name: some
        for name, some in places.items()
        if incidents[name] >= _LEAST
        and whole
        and chance_of(incidents[name], number, present[name] / whole) <= ERRORS / len(places)
    }


def _place(
    kind: PlaceKind,
    name: str,
    some: Sequence[_Session],
    sessions: Sequence[_Session],
    groups: Sequence[AttemptGroup],
) -> LosingPlace:
    lost = [it for it in some if it.lost_at is not None]
    times = sorted(it.lost_at for it in lost if it.lost_at)
    others = [it for it in sessions if (it.host if kind == "host" else it.site) != name]
    there = [it for it in groups if (it.host if kind == "host" else it.site) == name]
    return LosingPlace(
        kind,
        name,
        sorted({it.host for it in lost}),
        _incidents(some),
        sum(_incidents(its) for its in _by(others, kind).values()),
        len(lost),
        sum(it.lost for it in lost),
        times[0],
        times[-1],
        _only(there),
    )


def _only(groups: Sequence[AttemptGroup]) -> str:
    """Return the campaign of which all lost agents had tasks, if that is hardly chance."""
    lost = {it.session_id: it.slots for it in groups if it.outcome == "lost"}
    whole = sum(it.attempts for it in groups)
    found = []
    for campaign in sorted({it.campaign for it in groups if it.outcome == "lost"}):
        its = [it for it in groups if it.campaign == campaign]
        share = sum(it.attempts for it in its) / whole
        # That all of these had one of its tasks by chance.
        chance = math.prod(1 - (1 - share) ** slots for slots in lost.values())
        had = {it.session_id for it in its if it.outcome == "lost"}
        if had == lost.keys() and chance <= _CHANCE:
            found.append(campaign)
    return found[0] if len(found) == 1 else ""
