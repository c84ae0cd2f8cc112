"""Reasons in results: of hosts where they cannot be right, and of those that cannot be ranked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from taskq.diagnosis.bans import for_campaign
from taskq.diagnosis.facts import Facts
from taskq.diagnosis.reasons import Reason
from taskq.model.seed import is_within
from taskq.model.words import command, instant

_MOST_SHOWN: Final = 3


def odd_results(facts: Facts) -> Iterator[Reason]:
    """Name the hosts whose results cannot be right, and results that cannot be ranked."""
    findings = facts.findings
    bans = {host.name: host.bans for host in findings.hosts} if findings else {}
    odd = Counter(result.host for result in findings.odd.hosts) if findings else Counter[str]()
    for result in findings.odd.hosts[:_MOST_SHOWN] if findings else ():
        what = "constant" if result.constant else "far from those of other hosts"
        why = f"results of {result.campaign} are {what}"
        # Of one campaign it may be the program; of several, the host.
        only = for_campaign(result.campaign if odd[result.host] == 1 else "")
        words = ("host", "ban", "--why", why, "--until", "1d", *only)
        is_banned = any(is_within(result.campaign, it.path) for it in bans.get(result.host, ()))
        yield Reason(
            "constant-results" if result.constant else "odd-results",
            f"Results of {result.campaign} on host {result.host} are {what}{_since(result.since)}: "
            f"{result.evidence}. "
            "Repair or ban the host; then withdraw these results by a retry.",
            lost=result.results,
            commands=[
                *([] if is_banned else [command(*words, names=[result.host])]),
                result.remedy,
            ],
            figures={"campaign": result.campaign, "host": result.host, "results": result.results},
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


def _since(begun: datetime | None) -> str:
    return f" since tasks claimed at {instant(begun)}" if begun else ""
