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
        kind = result.kind
        what = "constant" if result.constant else f"far from those of other {kind}s"
        why = f"results of {result.campaign} are {what}"
        # Where others do well it may be the program; else, the place.
        only = for_campaign(result.campaign if result.only else "")
        words = (kind, "ban", "--why", why, "--until", "1d", *only)
        is_banned = any(
            is_within(result.campaign, it.path) for it in bans.get((kind, result.name), ())
        )
        bans_help = not is_banned and not result.site  # which would take its namesake, too
        yield Reason(
            "constant-results" if result.constant else "odd-results",
            f"Results of {result.campaign} {_at(result)} are {what}{_since(result.since)}: "
            f"{result.evidence}. "
            f"Repair{'' if result.site else ' or ban'} the {kind}; then withdraw these "
            "results by a retry.",
            lost=result.results,
            commands=[
                *([command(*words, names=[result.name])] if bans_help else []),
                result.remedy,
            ],
            figures={
                "campaign": result.campaign,
                kind: result.name,
                "results": result.results,
            },
            since=result.since,
        )
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


def _at(result: OddResults) -> str:
    if result.site:
        return f"on host {result.name} of site {result.site}, not on that of another site,"
    if result.kind == "host":
        return f"on host {result.name}"
    return f"at site {result.name} (hosts {some(result.hosts)})"


def _since(begun: datetime | None) -> str:
    return f" since tasks claimed at {instant(begun)}" if begun else ""
