"""What maintenance explains: facts that would be judged by time, and reasons that are expected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

from taskq.diagnosis.facts import AgentKind, Facts
from taskq.diagnosis.maintenance import MaintenanceWindow, window_of
from taskq.diagnosis.reasons import Reason, Whereabouts
from taskq.model.seed import is_within


def unjudged(facts: Facts) -> Facts:
    """Return facts without what would be judged by time though it is repaired, or was lately."""
    path, windows = facts.status.path, facts.windows
    if not windows:
        return facts
    lasting = [it for it in windows if it.lasts]

    def covered(campaign: str, site: str, host: str) -> bool:
        return any(it.covers(campaign, site, host) for it in lasting)

    findings = facts.findings
    if findings is not None:
        findings = replace(
            findings,
            hosts=[
                replace(it, slow=None) if covered(path, it.site, it.name) else it
                for it in findings.hosts
            ],
            sites=[
                replace(it, slow=None) if covered(path, it.name, "") else it
                for it in findings.sites
            ],
        )
    return replace(
        facts,
        findings=findings,
        overdue=[it for it in facts.overdue if not covered(it.campaign, "", it.host)],
        lost=[it for it in facts.lost if not covered(path, it.site, it.host)],
        past=None if any(_slows(it, path) for it in windows) else facts.past,
    )


def with_windows(facts: Facts, reasons: Iterable[Reason]) -> list[Reason]:
    """Return reasons with the window in which each is expected."""
    return [_with_window(facts, it) for it in reasons] if facts.windows else [*reasons]


def _with_window(facts: Facts, reason: Reason) -> Reason:
    place = Whereabouts.of(facts.status.path, reason)
    named = {(place.site, place.host)}
    places = named if any((place.site, place.host)) else _places(facts, reason.code) or named
    window = window_of(facts.windows, reason.code, place.campaign, places)
    return reason if window is None else replace(reason, maintenance=window.maintenance_id)


def _places(facts: Facts, code: str) -> set[tuple[str, str]]:
    """Return the sites and hosts of the agents that are not at work, for a reason that names none.

    Where nobody serves a campaign, those that left lately, or else those of its latest attempts.
    """
    if code in {"silent", "held-by-silent", "brake"}:
        return _places_of(kind for kind in facts.agents if kind.silent)
    if code in {"banned", "draining"}:
        return _places_of(kind for kind in facts.agents if kind.draining and not kind.silent)
    if code != "no-agents":
        return set()
    latest = [] if facts.findings is None else facts.findings.hosts
    left = {(session.site, session.host) for session in facts.left}
    return left or {(host.site, host.name) for host in latest}


def _places_of(kinds: Iterable[AgentKind]) -> set[tuple[str, str]]:
    """Return sites with hosts; without a host where not all are known."""
    return {
        place
        for kind in kinds
        for place in product(
            kind.sites, kind.some_hosts if kind.hosts <= len(kind.some_hosts) else [""]
        )
    }


def _slows(window: MaintenanceWindow, path: str) -> bool:
    """Return whether a window explains that few tasks end: a quarter of an hour is compared.

    One of single hosts does not.
    """
    is_large = bool(window.sites) or not window.hosts
    return window.begins <= window.now and is_large and is_within(path, window.path)
