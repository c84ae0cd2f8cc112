"""Reasons in results: of places where they cannot be right, and of those that cannot be ranked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from taskq.diagnosis.bans import for_campaign
from taskq.diagnosis.facts import Facts
from taskq.diagnosis.odd_results import OddResults
from taskq.diagnosis.reasons import Reason, some
from taskq.model.seed import is_within
from taskq.model.words import command, instant

_MOST_SHOWN: Final = 3


def odd_results(facts: Facts) -> Iterator[Reason]:
    """Name the places whose results cannot be right, and results that cannot be ranked."""
    findings = facts.findings
    places = [*findings.hosts, *findings.sites] if findings else []
    bans = {(place.kind, place.name): place.bans for place in places}
    for result in findings.odd.places[:_MOST_SHOWN] if findings else ():
        known = bans.get((result.kind, result.name), ())
        is_banned = any(is_within(result.campaign, it.path) for it in known)
        yield _in_part(result) if result.in_part else _wrong(result, is_banned=is_banned)
    for it in findings.odd.shapes[:_MOST_SHOWN] if findings else ():
        yield Reason(
            "unranked-results",
            f"{it.text[:1].upper()}{it.text[1:]}. They count as done. Look at some; a retry after "
            "the repair withdraws them. If each result must have it, let the campaign require "
            "that.",
            lost=it.odd if it.is_trouble else 0,
            commands=it.commands,
            figures={"campaign": it.campaign, "odd": it.odd, "results": it.results},
            since=it.since,
        )


def _wrong(result: OddResults, *, is_banned: bool) -> Reason:
    kind = result.kind
    what = "constant" if result.constant else f"far from those of other {kind}s"
    why = f"results of {result.campaign} are {what}"
    # Where others do well it may be the program; else, the place.
    only = for_campaign(result.campaign if result.only else "")
    words = (kind, "ban", "--why", why, "--until", "1d", *only)
    is_shared = result.site is not None  # a ban would take its namesake, too
    bans = [] if is_banned or is_shared else [command(*words, names=[result.name])]
    return Reason(
        "constant-results" if result.constant else "odd-results",
        f"Results of {result.campaign} {_at(result)} are {what}{_since(result.since)}: "
        f"{result.evidence}. Repair{'' if is_shared else ' or ban'} the {kind}; then withdraw "
        "these results by a retry.",
        lost=result.results,
        commands=[*bans, result.remedy],
        figures=_figures(result),
        since=result.since,
    )


def _in_part(result: OddResults) -> Reason:
    return Reason(
        "far-results",
        f"Some results of {result.campaign} {_at(result)} are far from those of other "
        f"{result.kind}s{_since(result.since)}: {result.evidence}. Look at some: the "
        f"{result.kind} may be wrong now and then, or have tasks that others cannot do.",
        commands=[command("tasks", result.campaign, "--where", result.chosen)],
        figures=_figures(result),
        since=result.since,
    )


def _figures(result: OddResults) -> dict[str, object]:
    return {
        "campaign": result.campaign,
        result.kind: result.name,
        "results": result.results,
    }


def _at(result: OddResults) -> str:
    if result.site is not None:
        of = f"of site {result.site}" if result.site else "without a site"
        return f"on host {result.name} {of}, not on that of another site,"
    if result.kind == "host":
        return f"on host {result.name}"
    return f"at site {result.name} (hosts {some(result.hosts)})"


def _since(begun: datetime | None) -> str:
    return f" since tasks claimed at {instant(begun)}" if begun else ""
