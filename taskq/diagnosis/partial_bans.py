"""Bans for one campaign, which agents at work keep: an order that is easily forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from taskq.diagnosis.bans import Ban, for_campaign
from taskq.diagnosis.facts import Facts
from taskq.diagnosis.reasons import Reason, brief, verb
from taskq.model.seed import is_within
from taskq.model.words import command, counted, instant

_MOST_SHOWN: Final = 3


def left_out(facts: Facts) -> Iterator[Reason]:
    """Name the hosts and sites at work that leave a campaign with waiting tasks out, by a ban.

    A place that fails there has a reason of its own, which has the ban too.
    """
    findings = facts.findings
    places = [*findings.sites, *findings.hosts] if findings else []
    waiting = [campaign for campaign in facts.campaigns if campaign.waiting]
    kept = [
        (place, ban)
        for place in places
        if place.agents > place.draining and not place.is_failing
        for ban in place.bans
        if any(is_within(campaign.path, ban.path) for campaign in waiting)
    ]
    for place, ban in kept[:_MOST_SHOWN]:
        yield _kept(ban, place.agents - place.draining)


def _kept(ban: Ban, agents: int) -> Reason:
    leave = verb(agents, "leaves", "leave")
    return Reason(
        f"banned-{ban.kind}",
        f"{ban.kind.capitalize()} {ban.name} is {ban.term} ({brief(ban.why)}), by {ban.login} "
        f"since {instant(ban.banned_at)}: {counted(agents, 'agent')} at work there {leave} "
        f"{ban.path} out. If that is mended, lift the ban.",
        commands=[command(ban.kind, "unban", *for_campaign(ban.path), names=[ban.name])],
        figures={ban.kind: ban.name, "campaign": ban.path, "agents": agents},
        since=ban.banned_at,
    )
