"""Whether places fail, or only got the tasks that fail anywhere.

Tasks that fail may follow each other, as where the end of a file is broken: a host that joins late
has hardly any others. So what ended at a place is compared with what ended at others next to it in
the order of seeding, in which claims go; see `odd_results`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

from taskq.db.access import Queries
from taskq.diagnosis.evidence import compare
from taskq.diagnosis.judging import is_failing
from taskq.diagnosis.places import Place
from taskq.diagnosis.sizes import Sizes, read_sizes
from taskq.diagnosis.stretches import LEAST_STRETCHES, Neighbour, stretches

#: The part of the share at a place that its neighbours must have.
_ALIKE: Final = 0.5


class LatestTasks:
    """The latest tasks at and below a path, by their sizes, read when something fails."""

    def __init__(self, database: Queries, path: str) -> None:
        self._database = database
        self._path = path

    @cached_property
    def sizes(self) -> Sequence[Sizes]:
        """The tasks that ended lately."""
        return read_sizes(self._database, self._path)


def neighbours_fail(
    place: Place, sizes: Iterable[Sizes], sites: Mapping[str, str], accused: Collection[str]
) -> bool:
    """Return whether what fails most at a place does as often at others with tasks next to its own.

    sizes: those of no field have all tasks. sites: of hosts. accused: places that are no measure.
    """
    if place.worst is None or place.bad < LEAST_STRETCHES:
        return False
    campaign, error_class = place.worst
    return any(
        _fail_near(place.name, it, error_class, sites if place.kind == "site" else {}, accused)
        for it in sizes
        if it.campaign == campaign and not it.field
    )


def _fail_near(
    name: str, its: Sizes, error_class: str, sites: Mapping[str, str], accused: Collection[str]
) -> bool:
    known = [
        Neighbour(place, sites.get(host, "") if sites else host, 0, float(it == error_class))
        for place, (host, it) in enumerate(zip(its.hosts, its.classes, strict=True))
    ]
    known = [it for it in known if it.host == name or it.host not in accused]
    own: list[float] = []
    near: dict[int, float] = {}
    number = 0
    for some_own, near_by in stretches(known):
        if some_own[0].host == name:
            own += [it.number for it in some_own]
            near.update({it.place: it.number for it in near_by})
            number += 1
    if number < LEAST_STRETCHES or not near:
        return False
    here, others = (round(sum(own)), len(own)), (round(sum(near.values())), len(near))
    is_worse = is_failing(compare({"": here}, {"": others}))
    return not is_worse and others[0] * here[1] >= _ALIKE * here[0] * others[1]
