"""How long attempts take at a place, compared with those of other places next to them.

Tasks may be handed out in the order of their sizes: a host that joins late then has the large ones,
and is not slow. So an attempt is compared with those of others nearest to it in the order of
claims, as results are; see `odd_results`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from statistics import fmean

from taskq.diagnosis.bans import PlaceKind
from taskq.diagnosis.odd_results import HostResults
from taskq.diagnosis.places import Place
from taskq.diagnosis.stretches import LEAST_STRETCHES, NEAR, Neighbour, stretches


def times_near(groups: Sequence[HostResults], kind: PlaceKind) -> Mapping[str, float]:
    """Return by place how many times as long as their neighbours attempts take there.

    Without places of which too little is known.
    """
    campaigns: dict[str, list[Neighbour]] = defaultdict(list)
    for it in groups:
        name = it.host if kind == "host" else it.site
        campaigns[it.campaign] += [
            Neighbour(place, name, 0, math.log(run_s))
            for place, run_s in zip(it.places, it.runs, strict=False)
        ]
    apart: dict[str, list[float]] = defaultdict(list)
    for runs in campaigns.values():
        for own, near in stretches(sorted(runs, key=attrgetter("place"))):
            if len(near) == 2 * NEAR:
                mean = fmean(it.number for it in near)
                apart[own[0].host].append(fmean(it.number for it in own) - mean)
    return {
        name: math.exp(fmean(some)) for name, some in apart.items() if len(some) >= LEAST_STRETCHES
    }


def unless_as_others(place: Place, near_by: Mapping[str, float]) -> Place:
    """Return a place; without the verdict that it is slow, if that is due to which tasks it got.

    So it is if it takes next to others less than half of the factor, as a logarithm.
    """
    times = near_by.get(place.name)
    if place.slow is None or times is None or times**2 >= place.slow.times:
        return place
    return replace(place, slow=None)
