"""Whether attempts fail by the release of their agents, in sums of ended attempts.

Releases are compared within the ten minutes in which several were at work: what also began at a
time is no release's fault. Where they never were at work together, both are shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from taskq.diagnosis.ends import EndSum
from taskq.diagnosis.evidence import Comparison, compare, tail_of
from taskq.diagnosis.judging import is_failing
from taskq.diagnosis.sample import BAD, TELLING
from taskq.model.words import percent

#: By time, how many attempts were bad, of how many.
_Cells: TypeAlias = Mapping[str, tuple[int, int]]


def by_release(sums: Iterable[EndSum], error_class: str, looks: int) -> str:
    """Return in words in which release attempts end in a class far more often; empty if in none.

    looks: how many classes are judged at once.
    """
    cells: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    for it in sums:
        if it.outcome not in TELLING or not it.release or it.starts is None:
            continue
        bad, whole = cells[it.release].get(str(it.starts), (0, 0))
        is_bad = it.outcome in BAD and it.sort == error_class
        counted = bad + it.attempts * is_bad, whole + it.attempts
        cells[it.release][str(it.starts)] = counted
    tail = tail_of(looks * len(cells))
    for release in sorted(cells, key=lambda it: (-sum(bad for bad, _ in cells[it].values()), it)):
        others = _added([its for name, its in cells.items() if name != release])
        found = compare(cells[release], others, tail)
        if found is not None:  # several were at work at a time
            if is_failing(found):
                return f"{_shares(release, found)} at the same time: look at that release"
            continue
        apart = compare({"": _whole(cells[release])}, {"": _whole(others)}, tail)
        if apart is not None and is_failing(apart):
            return f"{_shares(release, apart)} at other times: it may be that release, or the time"
    return ""


def _added(some: Sequence[_Cells]) -> _Cells:
    found: dict[str, tuple[int, int]] = {}
    for cells in some:
        for time, (bad, whole) in cells.items():
            part, of = found.get(time, (0, 0))
            found[time] = part + bad, of + whole
    return found


def _whole(cells: _Cells) -> tuple[int, int]:
    return sum(bad for bad, _ in cells.values()), sum(whole for _, whole in cells.values())


def _shares(release: str, found: Comparison) -> str:
    return (
        f"with agents of release {release} {percent(found.here.share)} of "
        f"{found.here.attempts:,} attempts fail this way, with others "
        f"{percent(found.elsewhere.share)}"
    )
