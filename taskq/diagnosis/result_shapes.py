"""Shares of results that cannot be ranked, or lack what others have; and where, and since when.

A result has one shape: it has the number by which the campaign ranks, or none at all, null, text,
no such field. A campaign that does not rank is judged only if most of its results have a number.
One judgement serves for hosts, releases of agents and time: the share is surely larger there than
elsewhere. What changes with time and with hosts alike is shown as both, and accuses neither.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from datetime import datetime
from itertools import accumulate
from typing import Final

from taskq.diagnosis.evidence import share
from taskq.diagnosis.judging import is_split
from taskq.diagnosis.odd_results import HostResults
from taskq.diagnosis.reasons import some
from taskq.model.words import command, counted, instant, percent

#: The shape of a result that can be ranked.
RANKED: Final = "number"
_WORDS: Final = {
    "none": "{} without any result",
    "null": "{} with null",
    "missing": "{} without that field",
    "string": "{} with text",
    "other": "{} without a number",
}
#: Results from which on equal numbers of all are odd.
_LEAST_EQUAL: Final = 20
#: The part of all results from which on they are trouble wherever they lie.
_BROKEN: Final = 0.2
#: The part of odd results that a place or time must explain.
_MOST: Final = 0.8
#: Results before and after an instant since which it is so.
_LEAST_SINCE: Final = 8
_PLAIN: Final = re.compile(r"[A-Za-z_][\w.]*")


@dataclass(frozen=True, slots=True)
class OddShapes:
    """Results of a campaign that cannot be ranked, or that are all the same.

    field: the number by which it ranks; empty if it does not. results: how many were looked at;
    odd: of these. text: what is odd about them, and where, in words. placed: whether a host, a
    release or a time has nearly all. shapes: the odd ones. since: when the first of these was
    claimed, or as the sums of ended attempts know since when results are so.
    """

    campaign: str
    field: str
    results: int
    odd: int
    text: str
    placed: bool
    shapes: Collection[str] = dataclass_field(default=(), kw_only=True)
    since: datetime | None = dataclass_field(default=None, kw_only=True)

    @property
    def is_trouble(self) -> bool:
        """Whether something is broken; a few nulls that lie anywhere may be right."""
        return self.placed or self.odd >= _BROKEN * self.results

    @property
    def commands(self) -> list[str]:
        """The commands that list such results, and that try their tasks again."""
        if not self.field:
            return [command("results", self.campaign)]
        name = self.field if _PLAIN.fullmatch(self.field) else f'"{self.field}"'
        where = f"status = done and result.{name} = null"
        return [
            command("tasks", self.campaign, "--where", where),
            command("retry", self.campaign, "--no-below", "--where", where),
        ]


@dataclass(frozen=True, slots=True)
class _Looked:
    place: int
    host: str
    release: str
    claimed_at: datetime
    shape: str

    @property
    def is_odd(self) -> bool:
        return self.shape != RANKED


def odd_shapes(groups: Sequence[HostResults]) -> list[OddShapes]:
    """Return the campaigns with such results, most of them first."""
    campaigns = defaultdict(list)
    for group in groups:
        campaigns[group.campaign].append(group)
    found = [it for some_hosts in campaigns.values() for it in _of_campaign(some_hosts)]
    return sorted(found, key=lambda it: (-it.odd, it.campaign))


def _of_campaign(hosts: Sequence[HostResults]) -> Iterator[OddShapes]:
    first = hosts[0]
    field_name = next((name for name in first.fields if name), "") if first.ranks else ""
    looked = sorted(
        (
            _Looked(place, host.host, release, claimed_at, shape)
            for host in hosts
            for place, release, claimed_at, shape in zip(
                host.places, host.releases, host.claims, host.shapes, strict=True
            )
        ),
        key=lambda it: it.place,
    )
    kinds = Counter(it.shape for it in looked if it.is_odd)
    odd, number = sum(kinds.values()), len(looked)
    if odd and (first.ranks or 2 * odd < number):
        what = (
            f"cannot be ranked by {field_name}"
            if field_name
            else "have no number, as the others have"
        )
        shapes = ", ".join(
            _WORDS.get(shape, _WORDS["other"]).format(f"{results:,}")
            for shape, results in kinds.most_common()
        )
        where = [*_where(looked)] if odd < number else []
        text = (
            f"{odd:,} of the latest {counted(number, 'result')} of {first.campaign} "
            f"({percent(odd / number)}) {what}: {shapes}"
        )
        text += f"; {'; '.join(where)}" if where else ""
        since = min(it.claimed_at for it in looked if it.is_odd)
        yield OddShapes(
            *(first.campaign, field_name, number, odd, text, bool(where)),
            shapes={*kinds},
            since=since,
        )
    numbers = {value for host in hosts for value in host.numbers if value is not None}
    if first.ranks and number - odd >= _LEAST_EQUAL and len(numbers) == 1:
        text = (
            f"all the latest {counted(number - odd, 'result')} of {first.campaign} have "
            f"{field_name} {numbers.pop():g}"
        )
        since = min(it.claimed_at for it in looked if not it.is_odd)
        yield OddShapes(first.campaign, "", number, number - odd, text, True, since=since)


def _where(looked: Sequence[_Looked]) -> Iterator[str]:
    """Yield the hosts, the releases and the time that have nearly all odd results."""
    yield from _among("on host", "hosts", [(it.host, it.is_odd) for it in looked])
    yield from _among("of release", "releases", [(it.release, it.is_odd) for it in looked])
    yield from _since(looked)


def _among(word: str, things: str, looked: Sequence[tuple[str, bool]]) -> Iterator[str]:
    counts: dict[str, tuple[int, int]] = {}
    for name, is_odd in looked:
        odd, whole = counts.get(name, (0, 0))
        counts[name] = odd + is_odd, whole + 1
    all_odd = sum(odd for odd, _ in counts.values())
    usual = all_odd / len(looked)
    above = {name: it for name, it in counts.items() if it[0] > usual * it[1]}
    rest = [it for name, it in counts.items() if name not in above]
    elsewhere = share(sum(odd for odd, _ in rest), sum(whole for _, whole in rest))
    worse = [name for name, it in above.items() if share(*it).low > elsewhere.high]
    covered = sum(above[name][0] for name in worse)
    if not worse or covered < _MOST * all_odd:
        return
    worse.sort(key=lambda name: (-above[name][0], name))
    if is_split(len(worse), len(counts)):
        part = percent(covered / all_odd)
        yield f"{len(worse):,} of {len(counts):,} {things} ({some(worse)}) have {part} of them"
        return
    here = covered / sum(above[name][1] for name in worse)
    yield (
        f"{percent(covered / all_odd)} of them are {word} {some(worse)}, where {percent(here)} are "
        f"so, elsewhere {percent(elsewhere.share)}"
    )


def _since(looked: Sequence[_Looked]) -> Iterator[str]:
    """Yield since which claim it is so, if it surely was not so before."""
    before = [0, *accumulate(it.is_odd for it in looked)]
    number, odd = len(looked), before[-1]
    cuts = range(_LEAST_SINCE, number - _LEAST_SINCE + 1)
    cut = max(
        cuts, key=lambda at: (odd - before[at]) / (number - at) - before[at] / at, default=None
    )
    if cut is None or odd - before[cut] < _MOST * odd:
        return
    earlier, later = share(before[cut], cut), share(odd - before[cut], number - cut)
    if later.low > earlier.high:
        yield (
            f"since tasks claimed at {instant(looked[cut].claimed_at)}: {percent(later.share)} "
            f"from then on, {percent(earlier.share)} before"
        )
