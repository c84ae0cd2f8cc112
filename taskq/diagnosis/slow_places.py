"""Reasons in hosts and sites where attempts take much longer than elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from taskq.diagnosis import costs
from taskq.diagnosis.facts import Facts
from taskq.diagnosis.fleet import Findings
from taskq.diagnosis.places import Place
from taskq.diagnosis.reasons import Reason, some, verb
from taskq.model.words import command, counted, instant

_MOST_SHOWN: Final = 3


def slow_places(facts: Facts, findings: Findings) -> Iterator[Reason]:
    """Say which sites are slow, and which hosts at others."""
    path = facts.status.path
    sites = [site for site in findings.sites if site.is_slow and site.ban is None]
    theirs = {site.name for site in sites}
    hosts = [host for host in findings.hosts if host.is_slow and host.ban is None]
    hosts = [host for host in hosts if host.site not in theirs and not host.is_failing]
    for site in [site for site in sites if not site.is_failing][:_MOST_SHOWN]:
        text = f"Site {site.name}: {site.verdict}"
        text += f"; {site.loss}" if site.loss else ""
        text += f"; since {instant(site.since)}" if site.since else ""
        yield Reason(
            "slow-site",
            f"{text}. Look at its hosts first.",
            lost=_lost([site]),
            commands=[command("host", "list", path), command("site", "list", path)],
            figures=figures_of(site),
            since=site.since,
            cost=costs.of_places([site]),
        )
    if hosts:
        since = min((host.since for host in hosts if host.since), default=None)
        times = max(host.slow.times for host in hosts if host.slow)
        number = len(hosts)
        yield Reason(
            "slow-host",
            f"Tasks take {'up to ' if number > 1 else ''}{times:.1f} times as long as elsewhere on "
            f"{counted(number, 'host')} ({some([host.name for host in hosts])}); "
            f"{verb(number, 'it is', 'they are')} at no slow site"
            f"{f', since {instant(since)}' if since else ''}.",
            lost=_lost(hosts),
            commands=[command("host", "list", path)],
            figures={"hosts": number},
            since=since,
            cost=costs.of_places(hosts),
        )


def _lost(places: Sequence[Place]) -> int:
    """Return how many more attempts slow places could have made as fast ones."""
    return round(
        sum((place.attempts - place.bad) * (place.slow.times - 1) for place in places if place.slow)
    )


def figures_of(place: Place) -> dict[str, object]:
    """Return what programs read of a reason in a place."""
    return {
        place.kind: place.name,
        "attempts": place.attempts,
        "bad": place.bad,
        "times": place.slow.times if place.slow else None,
        "work": place.work,
    }
