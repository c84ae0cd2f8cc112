"""Whether tasks fail by their size: the bytes of their payloads, or a number that these name.

All ways to part the tasks of a campaign by a number in two are tried, and one counts if the shares
of failures on both sides differ by far more than chance, as in `onset`; the probability is
multiplied by the number of ways. A number that follows the order of seeding, such as an index,
shows a position or a time as well as a size, and is left out. What sizes explain accuses no host:
hosts are compared again among tasks of their size. Nor are tasks of a size at fault if they fail at
some places only.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from taskq.db.access import Queries
from taskq.diagnosis.bans import Ban, PlaceKind
from taskq.diagnosis.blame import FailureVerdict, Side, bans_of
from taskq.diagnosis.evidence import Share, chance_of, compare, share, tail_of
from taskq.diagnosis.failing_places import places_at_fault
from taskq.diagnosis.judging import is_failing
from taskq.diagnosis.onset import likelihood
from taskq.diagnosis.reasons import some, verb
from taskq.diagnosis.sample import AttemptGroup, bad_attempts, by_place, ended_alike
from taskq.model.words import percent

#: The most attempts that are read.
MOST: Final = 3_000
_CHANCE: Final = 0.001
_LEAST_SIDE: Final = 8
#: The part of all failures that a size must explain, and by which factor their share is larger.
_MOST_OF: Final = 0.8
_TIMES: Final = 3.0
#: The part of the failures of a size that a place must have to be suspected, and the probability
#: that it has so many by chance.
_HALF: Final = 0.5
_BY_CHANCE: Final = 0.2
_KINDS: Final[tuple[PlaceKind, ...]] = ("site", "host")
#: Neighbours in the order of seeding that ascend, or descend, from which on a number follows it.
_IN_ORDER: Final = 0.95


@dataclass(frozen=True, slots=True)
class Sizes:
    """Tasks of a campaign with a number; see `failing_sizes` in SQL for the fields."""

    campaign: str
    field: str
    hosts: Sequence[str]
    classes: Sequence[str | None]
    sizes: Sequence[float]


@dataclass(frozen=True, slots=True)
class Parted:
    """Tasks of a campaign parted at a size. large: whether those that fail are the large ones."""

    its: Sizes
    size: float
    large: bool
    gain: float

    def is_bad(self, size: float) -> bool:
        """Return whether tasks of this size fail."""
        return size >= self.size if self.large else size <= self.size

    def shares(self, error_class: str) -> tuple[Share, Share]:
        """Return the share that fails of those at fault, and of the others."""
        bad = [self.is_bad(size) for size in self.its.sizes]
        fail = [it == error_class for it in self.its.classes]
        here = share(sum(a and b for a, b in zip(bad, fail, strict=True)), sum(bad))
        rest = share(sum(b and not a for a, b in zip(bad, fail, strict=True)), len(bad) - sum(bad))
        return here, rest

    def text(self, error_class: str) -> str:
        """Return which tasks fail, in words."""
        here, rest = self.shares(error_class)
        name = f"{self.its.field} is" if self.its.field else "payloads have"
        unit = "" if self.its.field else " bytes"
        bound = "or more" if self.large else "or less"
        return (
            f"of tasks whose {name} {self.size:g}{unit} {bound}, {percent(here.share)} of "
            f"{here.attempts:,} fail this way, of the others {percent(rest.share)} of "
            f"{rest.attempts:,}"
        )


def read_sizes(database: Queries, path: str) -> list[Sizes]:
    """Read how large tasks at and below a path are that ended lately."""
    return [Sizes(**row) for row in database.rows("failing_sizes", path=path, most=MOST)]


def with_sizes(
    verdicts: Sequence[FailureVerdict],
    sizes: Sequence[Sizes],
    sites: Mapping[str, str],
    bans: Sequence[Ban] = (),
) -> Iterator[FailureVerdict]:
    """Yield the verdicts, those about tasks of some size with it. sites: of hosts."""
    for verdict in verdicts:
        its = [it for it in sizes if it.campaign == verdict.campaign]
        parted = _parted(its, verdict.error_class, len(verdicts))
        yield verdict if parted is None else _sized(verdict, parted, sites, bans, len(verdicts))


def _sized(
    verdict: FailureVerdict,
    parted: Parted,
    sites: Mapping[str, str],
    bans: Sequence[Ban],
    looks: int,
) -> FailureVerdict:
    if verdict.side in {"chance", "unclear"}:
        return _cleared_up(verdict, parted, sites, bans, looks)
    text = parted.text(verdict.error_class)
    if verdict.place_kind is None:
        return replace(verdict, why=f"{verdict.why}; {text}")
    by_site = verdict.place_kind == "site"
    its = parted.its
    where = [sites.get(host, "") if by_site else host for host in its.hosts]
    tail = tail_of(looks * len(set(where)))
    left = []
    for place in verdict.places:
        cells: dict[bool, dict[str, list[int]]] = {True: {}, False: {}}
        for name, error_class, size in zip(where, its.classes, its.sizes, strict=True):
            cell = cells[name == place].setdefault(str(parted.is_bad(size)), [0, 0])
            cell[0] += error_class == verdict.error_class
            cell[1] += 1
        here, elsewhere = ({k: (a, b) for k, (a, b) in it.items()} for it in cells.values())
        if is_failing(compare(here, elsewhere, tail)):
            left.append(place)
    if left:
        return replace(verdict, places=left, why=f"{verdict.why}; {text}")
    return _cleared_up(verdict, parted, sites, bans, looks)


def _cleared_up(
    verdict: FailureVerdict,
    parted: Parted,
    sites: Mapping[str, str],
    bans: Sequence[Ban],
    looks: int,
) -> FailureVerdict:
    """Return the verdict on tasks of a size: they fail anywhere, at some places only, or unclear.

    verdict: says little, or accuses places that do not fail more than others with such tasks.
    """
    text = parted.text(verdict.error_class)
    groups = _of_size(parted, verdict.error_class, sites)
    found = places_at_fault(groups, looks)
    names = [name for kind in _KINDS if (name := _gathered(groups, kind))]
    cleared: Sequence[str] = ()
    side: Side = "task"
    if found is not None:
        side = "site" if found.kind == "site" else "node"
        text += f"; of these, {found.text}"
    elif names:
        side = "unclear"
        text += f"; most of these at {names[0]}: too few to tell whether that place is at fault"
    elif cleared := verdict.places:
        do = verb(len(cleared), "does", "do")
        text += f"; {some(cleared)} got most of these, and {do} as well as others with them"
    places = [] if found is None else found.names
    return replace(
        verdict,
        side=side,
        why=text,
        places=places,
        bans=bans_of(verdict.campaign, side, places, bans),
        raised=(),
        cleared=cleared,
    )


def _of_size(parted: Parted, error_class: str, sites: Mapping[str, str]) -> Sequence[AttemptGroup]:
    """Return the attempts at tasks that are of the size which fails."""
    its = parted.its
    number = Counter(
        (host, found == error_class)
        for host, found, size in zip(its.hosts, its.classes, its.sizes, strict=True)
        if parted.is_bad(size)
    )
    return [
        ended_alike(its.campaign, host, sites.get(host, ""), error_class if bad else None, attempts)
        for (host, bad), attempts in number.items()
    ]


def _gathered(groups: Sequence[AttemptGroup], kind: PlaceKind) -> str:
    """Return the place that has more of all failures than chance gives it; empty if none has."""
    places, bad, whole = by_place(groups, kind), bad_attempts(groups), _attempts(groups)
    chances = {
        name: chance_of(bad_attempts(some), bad, _attempts(some) / whole)
        for name, some in places.items()
        if name and bad_attempts(some) > _HALF * bad and _attempts(some) < whole
    }
    name = min(chances, key=chances.__getitem__, default="")
    return name if name and chances[name] * len(places) < _BY_CHANCE else ""


def _attempts(groups: Iterable[AttemptGroup]) -> int:
    return sum(group.attempts for group in groups)


def _parted(sizes: Iterable[Sizes], error_class: str, looks: int) -> Parted | None:
    """Return how a class parts the tasks of a campaign by a number, if any does; else None."""
    shown = [it for it in sizes if it.field.isprintable()]
    fitting = [it for it in shown if not _follows_order(it.sizes)]
    found = [
        parted for it in fitting if (parted := parted_at(it, error_class, looks * len(fitting)))
    ]
    return max(found, key=lambda it: (it.gain, it.its.field), default=None)


def _follows_order(sizes: Sequence[float]) -> bool:
    pairs = [*pairwise(sizes)]
    if not pairs:
        return True
    up, down = sum(b >= a for a, b in pairs), sum(b <= a for a, b in pairs)
    return max(up, down) >= _IN_ORDER * len(pairs)


def parted_at(its: Sizes, error_class: str, looks: int) -> Parted | None:
    """Return how a class parts tasks by this number, if far more than chance does; else None.

    looks: how many numbers and classes are tried.
    """
    known = sorted(
        (size, it == error_class) for size, it in zip(its.sizes, its.classes, strict=True)
    )
    number, bad = len(known), sum(fails for _, fails in known)
    cuts = [
        n for n in range(_LEAST_SIDE, number - _LEAST_SIDE + 1) if known[n - 1][0] < known[n][0]
    ]
    if not cuts or not bad:
        return None
    below = [0]
    for _, fails in known:
        below.append(below[-1] + fails)
    alike = likelihood(bad, number)
    best: Parted | None = None
    for cut in cuts:
        gain = likelihood(below[cut], cut) + likelihood(bad - below[cut], number - cut) - alike
        large = (bad - below[cut]) * cut > below[cut] * (number - cut)
        part, whole = (bad - below[cut], number - cut) if large else (below[cut], cut)
        usual = (bad - part) / (number - whole)
        explains = part >= _MOST_OF * bad and part / whole >= _TIMES * usual
        if explains and (best is None or gain > best.gain):
            best = Parted(its, known[cut][0] if large else known[cut - 1][0], large, gain)
    if best is None or 2 * looks * len(cuts) * math.erfc(math.sqrt(best.gain)) > _CHANCE:
        return None
    return best
