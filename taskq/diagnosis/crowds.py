"""Whether attempts fail when too many of a campaign run at once, anywhere or on their host.

Such as where a server gives licences to a few, or where two tasks of a host want the same port. The
number of attempts that succeeded and were running when one began is taken for its size; see `sizes`
for how failures are compared by a number. Failed ones do not count: they got nothing. What began
before the first failure is left out, as agents that came since make a crowd of any time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from taskq.db.access import Queries
from taskq.diagnosis.blame import AT_ONCE, FailureVerdict
from taskq.diagnosis.sizes import Parted, Sizes, parted_at
from taskq.model.words import percent

#: The most attempts that are read.
MOST: Final = 3_000
_HALF: Final = 0.5
#: Verdicts that say little: tasks at fault fail again, and hosts fail in any company.
_VAGUE: Final = frozenset({"campaign", "chance", "unclear"})


@dataclass(frozen=True, slots=True)
class AttemptTimes:
    """From when to when attempts ran; see `attempt_times` in SQL for the fields."""

    campaign: str
    hosts: Sequence[str]
    classes: Sequence[str | None]
    began_at: Sequence[datetime]
    ended_at: Sequence[datetime]


def read_times(database: Queries, path: str) -> list[AttemptTimes]:
    """Read when attempts at and below a path ran that ended lately."""
    return [AttemptTimes(**row) for row in database.rows("attempt_times", path=path, most=MOST)]


def is_vague(verdict: FailureVerdict) -> bool:
    """Return whether a verdict would gain by it: no place is at fault, and no limit either."""
    return verdict.side in _VAGUE and not (verdict.side == "campaign" and verdict.raised)


def with_crowds(
    verdicts: Sequence[FailureVerdict], times: Sequence[AttemptTimes]
) -> Iterator[FailureVerdict]:
    """Yield the verdicts, those on attempts that fail when many run at once with that."""
    of_campaigns = {it.campaign: it for it in times}
    for verdict in verdicts:
        its = of_campaigns.get(verdict.campaign)
        if its is None or not is_vague(verdict):
            yield verdict
        else:
            yield _crowded(verdict, its, 2 * len(verdicts))


def _crowded(verdict: FailureVerdict, times: AttemptTimes, looks: int) -> FailureVerdict:
    anywhere, on_host = (
        _parted(_company(times, verdict.error_class, on_host=on_host), verdict.error_class, looks)
        for on_host in (False, True)
    )
    if on_host is not None and (anywhere is None or on_host.gain > anywhere.gain):
        text = _text(on_host, verdict.error_class, "on their host")
        text += "; tasks that share a port, a file or a device there need a node that takes fewer"
        return replace(verdict, side="campaign", why=text, raised=())
    if anywhere is None:
        return verdict
    text = _text(anywhere, verdict.error_class, "anywhere")
    text += f"; if what they share allows no more, such as licences, let {anywhere.size:g} run"
    return replace(verdict, side="campaign", why=text, raised=(AT_ONCE, f"{anywhere.size:g}"))


def _parted(company: Sizes, error_class: str, looks: int) -> Parted | None:
    """Return from how many others on most attempts fail in a class, and few of the others do."""
    found = parted_at(company, error_class, looks)
    is_crowd = found is not None and found.large and found.shares(error_class)[0].low > _HALF
    return found if is_crowd else None


def _text(parted: Parted, error_class: str, where: str) -> str:
    here, rest = parted.shares(error_class)
    return (
        f"of attempts that began while {parted.size:g} or more others of the campaign ran {where} "
        f"{percent(here.share)} of {here.attempts:,} fail this way, of the others "
        f"{percent(rest.share)} of {rest.attempts:,}"
    )


def _company(times: AttemptTimes, error_class: str, *, on_host: bool) -> Sizes:
    """Return how many others, which then succeeded, ran when each attempt began.

    Of attempts since the first that failed in a class.
    """
    began: dict[str, list[datetime]] = defaultdict(list)
    ended: dict[str, list[datetime]] = defaultdict(list)
    names = times.hosts if on_host else [""] * len(times.hosts)
    for name, its_class, start, end in zip(
        names, times.classes, times.began_at, times.ended_at, strict=True
    ):
        if its_class is None:
            began[name].append(start)
            ended[name].append(end)
    for its in ended.values():
        its.sort()
    # Those that began in the same moment are not before it; it began before its own end.
    first = next((n for n, it in enumerate(times.classes) if it == error_class), 0)
    company = [
        float(max(0, bisect_left(began[name], start) - bisect_right(ended[name], start)))
        for name, start in [*zip(names, times.began_at, strict=True)][first:]
    ]
    return Sizes(times.campaign, "", times.hosts[first:], times.classes[first:], company)
