"""Hosts whose results cannot be right: one constant, or far from those of other hosts.

Tasks may be handed out in an order that decides their results, such as by size or by priority, and
a host that joins late then has others than those before it. So each result is compared only with
the results of other hosts nearest to it in the order of claims, the same number on both sides.
Consecutive claims of a host share these neighbours and are one stretch. A result that grows with
the order lies between its neighbours, whatever the trend.

The test is van Elteren's sum of Mann-Whitney statistics over the stretches (Bull. Inst. Internat.
Statist. 37, 1960, 351). If stretches of other hosts vary more than chance allows, as where a file
lists its tasks by groups, the deviation is divided by that.

If such a host's site has others, and all that can be judged are odd in the same way, it is the site
that is named: there a file system, an image or a network is shared.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from datetime import datetime
from itertools import accumulate
from operator import attrgetter
from statistics import median
from typing import Final

from taskq.diagnosis.bans import PlaceKind
from taskq.diagnosis.far_results import far_apart
from taskq.diagnosis.stretches import (
    LEAST_HOSTS,
    LEAST_STRETCHES,
    NEAR,
    Neighbour,
    stretches,
)
from taskq.model.words import command, percent

#: Standard deviations: of 1,000 honest hosts, one exceeds them in 1,700 looks.
_Z: Final = 5.0
#: Stretches, or equal results, from which on a host may agree with another of its site; by how many
#: standard deviations; and the probability that its results are equal by chance.
_LEAST_LEANING: Final = 3
_Z_LEANING: Final = 2.5
_LEANING_CHANCE: Final = 0.01
#: The way of results that are as elsewhere.
_USUAL: Final = "usual"
#: How far from a half the probability is that a result exceeds a neighbour.
_EFFECT: Final = 0.35
_LEAST_CONSTANT: Final = 8
#: The probability that a host's results are equal by chance.
_CHANCE: Final = 1e-9
#: The largest share of results from hosts that differ; with more, these may be the right ones.
_MOST_ODD: Final = 0.4
#: Numbers that differ between hosts whose results are right.
_OF_HOSTS: Final = re.compile(
    r"(?i)(^|[._])(time|times|s|ms|secs?|seconds|duration|elapsed|wall|cpu|pid|runtime|walltime|speed)$"
)


@dataclass(frozen=True, slots=True)
class HostResults:
    """Results of a campaign on a host; see `latest_results` in SQL for the fields."""

    campaign: str
    host: str
    places: Sequence[int]
    digests: Sequence[int]
    numbers: Sequence[float | None]
    fields: Sequence[str | None]
    shapes: Sequence[str] = ()
    claims: Sequence[datetime] = ()
    releases: Sequence[str] = ()
    ranks: bool = False
    site: str = ""
    runs: Sequence[float] = ()
    tasks: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class OddResults:
    """A host, or a site, whose results cannot be right, in one campaign.

    results: how many were compared. field: the number that is compared; empty for whole results.
    constant: whether all are equal. evidence: in words. since: when the first of these was claimed.
    hosts: of the place. only: whether no other campaign has results there, or some has them as
    elsewhere and none is odd. site: of a host whose name a machine of another site has, too, which
    may be none; else None. in_part: whether only some of the results are far from others, and may
    be right: nobody else may be able to do their tasks.
    """

    campaign: str
    name: str
    results: int
    field: str
    constant: bool
    evidence: str
    since: datetime | None = dataclass_field(default=None, kw_only=True)
    kind: PlaceKind = dataclass_field(default="host", kw_only=True)
    hosts: Sequence[str] = dataclass_field(default=(), kw_only=True)
    only: bool = dataclass_field(default=True, kw_only=True)
    site: str | None = dataclass_field(default=None, kw_only=True)
    in_part: bool = dataclass_field(default=False, kw_only=True)

    @property
    def chosen(self) -> str:
        """The filter that chooses the results."""
        places = [(self.kind, self.name)]
        places += [] if self.site is None else [("site", self.site)]
        terms = [f"{kind} = {json.dumps(name, ensure_ascii=False)}" for kind, name in places]
        return " and ".join([*terms, "status = done"])

    @property
    def remedy(self) -> str:
        """The command that withdraws the results and tries their tasks again."""
        return command("retry", self.campaign, "--no-below", "--where", self.chosen)


def odd_results(groups: Sequence[HostResults]) -> list[OddResults]:
    """Return the hosts whose results cannot be right, most results first; then those in part.

    Machines of several sites that have one name are judged each.
    """
    sites: dict[str, set[str]] = defaultdict(set)
    for group in groups:
        sites[group.host].add(group.site)
    machines = {
        f"{host} {site}": (host, site)
        for host, its in sites.items()
        for site in its
        if len(its) > 1
    }
    campaigns = defaultdict(list)
    for it in groups:
        machine = f"{it.host} {it.site}"
        group = replace(it, host=machine) if machine in machines else it
        campaigns[group.campaign].append(group)
    judged = {path: _of_campaign(some) for path, some in campaigns.items() if len(some) > 1}
    leans = {path: its for path, (_, its) in judged.items()}
    there = {path: {it.host for it in some} for path, some in campaigns.items()}
    found = [
        replace(it, only=_is_alone(it, there, leans))
        for odd_there, _ in judged.values()
        for it in odd_there
    ]
    named = [_by_its_name(it, machines) for it in found]
    return sorted(named, key=lambda it: (it.in_part, -it.results, it.campaign, it.name))


def _by_its_name(odd: OddResults, machines: Mapping[str, tuple[str, str]]) -> OddResults:
    """Return what is odd, its hosts by their own names. machines: name and site of namesakes."""
    hosts = [machines[host][0] if host in machines else host for host in odd.hosts]
    if odd.kind == "site" or odd.name not in machines:
        return replace(odd, hosts=hosts)
    name, site = machines[odd.name]
    return replace(odd, name=name, site=site, hosts=hosts)


def _is_alone(
    odd: OddResults, there: Mapping[str, set[str]], leans: Mapping[str, Mapping[str, str]]
) -> bool:
    """Return whether other campaigns do well at a place, or none has results there.

    there, leans: by campaign, the hosts with results, and in which way these differ.
    """
    others = [
        path for path, hosts in there.items() if path != odd.campaign and hosts & {*odd.hosts}
    ]
    ways = {leans.get(path, {}).get(host) for path in others for host in odd.hosts}
    return not others or (_USUAL in ways and ways <= {_USUAL, None})


def _of_campaign(hosts: Sequence[HostResults]) -> tuple[list[OddResults], Mapping[str, str]]:
    """Return the odd places of a campaign, and in which way the results of each host differ.

    Of a host of which too little is known, nothing.
    """
    field = _field(hosts)
    results = sorted(
        (
            Neighbour(place, host.host, digest, math.nan if number is None else number)
            for host in hosts
            for place, digest, number in zip(host.places, host.digests, host.numbers, strict=True)
        ),
        key=attrgetter("place"),
    )
    found = list(_constant(results, hosts, field))
    leans = dict(_leaning_to_one(hosts))
    if field:
        constant = {result.name for result in found}
        rest = [
            result
            for result in results
            if result.host not in constant and not math.isnan(result.number)
        ]
        claims = {
            place: at for host in hosts for place, at in zip(host.places, host.claims, strict=False)
        }
        found.extend(_distant(rest, hosts[0].campaign, field, claims, leans))
        distant = {result.name for result in found}
        rest = [result for result in rest if result.host not in distant]
        found.extend(_far(rest, hosts, field, claims, leans))
    odd = sum(result.results for result in found)
    if len(hosts) > 2 and odd > _MOST_ODD * len(results):  # noqa: PLR2004
        return [], {}
    return [*_of_sites(found, hosts, leans)], leans


def _leaning_to_one(hosts: Sequence[HostResults]) -> Iterator[tuple[str, str]]:
    """Yield the hosts whose latest results are all equal, as few are at other sites."""
    counts: dict[str, Counter[int]] = defaultdict(Counter)
    for it in hosts:
        counts[it.site].update(it.digests)
    everywhere = sum(counts.values(), Counter[int]())
    for it in hosts:
        number, digest = _equal_at_last(it.digests), it.digests[-1]
        others = everywhere.total() - counts[it.site].total()
        chance = (everywhere[digest] - counts[it.site][digest] + 1) / (others + 1)
        if number >= _LEAST_LEANING and chance ** (number - 1) <= _LEANING_CHANCE:
            yield it.host, f"constant {digest}"


def _of_sites(
    found: Sequence[OddResults], hosts: Sequence[HostResults], leans: Mapping[str, str]
) -> Iterator[OddResults]:
    """Yield what is odd: for the hosts of a site that are all odd in one way, the site.

    leans: in which way the results of a host differ, or that they do not, as far as that is known.
    """
    sites: dict[str, list[HostResults]] = defaultdict(list)
    for it in hosts:
        sites[it.site].append(it)
    of_site = {it.host: it.site for it in hosts}
    alike = {}
    for site, its in sites.items():
        judged = [it.host for it in its if it.host in leans]
        ways = {leans[host] for host in judged}
        if site and len(sites) > 1 and len(judged) > max(1, len(its) / 2) and len(ways) == 1:
            alike[site] = its
    told = set()
    for result in found:
        site = of_site[result.name]
        if site not in alike:
            yield result
        elif site not in told:
            told.add(site)
            its = alike[site]
            of_found = [it for it in found if of_site[it.name] == site]
            yield replace(
                result,
                kind="site",
                name=site,
                hosts=[it.host for it in its],
                results=sum(len(it.places) for it in its),
                evidence=f"all its hosts that can be judged are alike; on {result.name} "
                f"{result.evidence}",
                since=min((it.since for it in of_found if it.since), default=None),
            )


def _field(hosts: Sequence[HostResults]) -> str:
    """Return the field of the numbers, if all results have the same; else nothing."""
    names = {name for host in hosts for name in host.fields}
    name = names.pop() if len(names) == 1 else None
    return "" if name is None or _OF_HOSTS.search(name) else name


def _constant(
    results: Sequence[Neighbour], hosts: Sequence[HostResults], field: str
) -> Iterator[OddResults]:
    """Yield the hosts whose latest results are all equal, though few next to them are."""
    equal = {group.host: _equal_at_last(group.digests) for group in hosts}
    same = {group.host: group for group in hosts if equal[group.host] >= _LEAST_CONSTANT}
    begins = {host: group.places[-equal[host]] for host, group in same.items()}
    next_to: dict[str, list[dict[int, int]]] = defaultdict(list)
    for own, others in stretches(results) if same else ():
        if own[0].host in same and own[-1].place >= begins[own[0].host]:
            next_to[own[0].host].append({it.place: it.digest for it in others})
    for host, group in same.items():
        near = {place: digest for some in next_to[host] for place, digest in some.items()}
        if len(near) < _LEAST_CONSTANT or len(next_to[host]) < LEAST_STRETCHES:
            continue
        number = equal[host]
        most = Counter(near.values()).most_common(1)[0][1]
        chance = (most + 1) / (len(near) + 1)
        # Equal results of one stretch may have one cause; those of several, hardly.
        if chance ** (min(number, 3 * len(next_to[host])) - 1) > _CHANCE:
            continue
        value = group.numbers[-1]
        which = "all" if number == len(group.places) else "the latest"
        text = f"have {field} {value:g}" if field and value is not None else "are one value"
        evidence = (
            f"{which} {number:,} results that were looked at {text}; of {len(near):,} results of "
            f"other hosts next to them, at most {most:,} are equal"
        )
        since = group.claims[-number] if group.claims else None
        place = (group.campaign, host, number)
        yield OddResults(*place, field, True, evidence, since=since, hosts=[host])


def _equal_at_last(digests: Sequence[int]) -> int:
    """Return how many of the latest results are equal."""
    return next(
        (n for n, digest in enumerate(reversed(digests)) if digest != digests[-1]), len(digests)
    )


def _distant(
    results: Sequence[Neighbour],
    campaign: str,
    field: str,
    claims: Mapping[int, datetime],
    leans: dict[str, str],
) -> Iterator[OddResults]:
    """Yield the hosts whose numbers lie far from those of their neighbours.

    leans: gets the way in which each host leans, in which it has none.
    """
    numbers: dict[str, list[float]] = defaultdict(list)
    for result in results:
        numbers[result.host].append(result.number)
    if len(numbers) < LEAST_HOSTS:
        return
    # By host, of each stretch: by how much the share of pairs in which its numbers exceed those
    # next to them differs from a half; and the variance of that share.
    compared: dict[str, list[tuple[float, float]]] = defaultdict(list)
    places: dict[str, list[int]] = defaultdict(list)
    for own, near in stretches(results):
        if len(near) == 2 * NEAR:
            compared[own[0].host].append(_compared(own, near))
            places[own[0].host].append(own[0].place)
    squares = {
        host: sum(share**2 / variance for share, variance in some)
        for host, some in compared.items()
    }
    for host, some in compared.items():
        elsewhere = sum(map(len, compared.values())) - len(some)
        if len(some) < _LEAST_LEANING or not elsewhere:
            continue
        spread = max(1.0, (sum(squares.values()) - squares[host]) / elsewhere)
        weight = sum(1 / variance for _, variance in some)
        effect = sum(share / variance for share, variance in some) / weight
        z = abs(effect) * math.sqrt(weight / spread) * (abs(effect) >= _EFFECT)
        leans.setdefault(host, _USUAL if z < _Z_LEANING else "above" if effect > 0 else "below")
        if len(some) < LEAST_STRETCHES or z < _Z:
            continue
        others = [it for its, theirs in numbers.items() if its != host for it in theirs]
        evidence = (
            f"{field} is {'above' if effect > 0 else 'below'} that of other hosts' results next to "
            f"it in {percent(0.5 + abs(effect))} of comparisons: the median is "
            f"{median(numbers[host]):.6g}, elsewhere {median(others):.6g}"
        )
        begun = places[host][_begins([share for share, _ in some])]
        place = (campaign, host, len(numbers[host]))
        yield OddResults(*place, field, False, evidence, since=claims.get(begun), hosts=[host])


def _far(
    results: Sequence[Neighbour],
    hosts: Sequence[HostResults],
    field: str,
    claims: Mapping[int, datetime],
    leans: dict[str, str],
) -> Iterator[OddResults]:
    """Yield the hosts of which a part of the results lies far from all others.

    leans: gets those that may be such hosts.
    """
    for it in far_apart(results, field, {its.host: its.site for its in hosts}):
        if leans.get(it.host, _USUAL) == _USUAL:
            leans[it.host] = "far"
        if it.is_clear:
            place = (hosts[0].campaign, it.host, sum(result.host == it.host for result in results))
            since = claims.get(it.first)
            found = OddResults(*place, field, False, it.evidence, since=since, hosts=[it.host])
            yield replace(found, in_part=True)


def _begins(shares: Sequence[float]) -> int:
    """Return the stretch from which on numbers lie apart; before it they lie among the others."""
    sums = [0.0, *accumulate(shares)]
    last, number = sums[-1], len(shares)

    def gap(cut: int) -> float:
        return abs((last - sums[cut]) / (number - cut) - sums[cut] / cut)

    cuts = range(LEAST_STRETCHES, number - LEAST_STRETCHES + 1)
    cut = max(cuts, key=gap, default=0)
    return cut if cut and gap(cut) >= _EFFECT and abs(sums[cut] / cut) < _EFFECT / 2 else 0


def _compared(own: Sequence[Neighbour], near: Sequence[Neighbour]) -> tuple[float, float]:
    pairs = [(ours.number, it.number) for ours in own for it in near]
    above = sum((mine > its) + (mine == its) / 2 for mine, its in pairs)
    return above / len(pairs) - 0.5, (len(own) + len(near) + 1) / (12 * len(pairs))
