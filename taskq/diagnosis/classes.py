"""Reasons in classes of failures that no other reason names, those that cost most first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Final

from taskq.diagnosis.blame import FailureVerdict
from taskq.diagnosis.changes import CampaignChange, change_before
from taskq.diagnosis.facts import Facts
from taskq.diagnosis.reasons import Reason, brief, known_sum, some
from taskq.model.words import command, instant

_MOST: Final = 5
#: What begins in several campaigns within this time has one cause.
_AT_ONCE: Final = timedelta(minutes=10)


def began(verdict: FailureVerdict, changes: Sequence[CampaignChange] = ()) -> str:
    """Return since when attempts fail so, as an end of a phrase; empty if that is unknown."""
    if verdict.since is None:
        return ""
    change = change_before(changes, verdict.campaign, verdict.since)
    after = f", after {change.text}" if change else ""
    return f" {'' if verdict.is_new else 'ever '}since {instant(verdict.since)}{after}"


def changed(facts: Facts, verdicts: Iterable[FailureVerdict]) -> list[str]:
    """Return the commands that show the changes after which attempts fail so."""
    found = [change_before(facts.changes, it.campaign, it.since) for it in verdicts]
    return [*dict.fromkeys(line for it in found if it for line in it.commands)]


def further_classes(
    facts: Facts, named: Sequence[FailureVerdict], places: set[str]
) -> Iterator[Reason]:
    """Name each class with a clear verdict that is not among those that are named.

    places: hosts and sites that have reasons of their own, with what fails there.
    """
    if facts.findings is None:
        return
    known = {(it.campaign, it.error_class) for it in named}
    paused = {campaign.path for campaign in facts.closed if campaign.paused_why is not None}
    rest = [
        it
        for it in facts.findings.failures
        if it.side not in {"chance", "unclear"}
        and (it.campaign, it.error_class) not in known
        and it.campaign not in paused
        and not set(it.places) & places
    ]
    rest.sort(key=lambda it: (-(it.cost or 0.0), -it.attempts))
    groups = _by_cause(rest)
    for group in groups[:_MOST]:
        yield _reason(facts, group)
    if more := [it for group in groups[_MOST:] for it in group]:
        yield Reason(
            "failing-class",
            f"More classes of failures: {some([it.error_class or '(none)' for it in more])}.",
            lost=sum(it.attempts for it in more),
            commands=[command("failures", facts.status.path, "--judge", "class")],
            cost=known_sum(it.cost for it in more),
        )


def _by_cause(verdicts: Sequence[FailureVerdict]) -> list[list[FailureVerdict]]:
    """Return the verdicts by cause: a class that began in several campaigns at once is one."""
    groups: list[list[FailureVerdict]] = []
    for it in verdicts:
        for group in groups:
            first = group[0]
            if (
                (first.error_class, first.side) == (it.error_class, it.side)
                and first.places == it.places
                and first.since is not None
                and it.since is not None
                and abs(first.since - it.since) <= _AT_ONCE
            ):
                group.append(it)
                break
        else:
            groups.append([it])
    return groups


def _reason(facts: Facts, group: Sequence[FailureVerdict]) -> Reason:
    first = group[0]
    campaigns = [it.campaign for it in group]
    text = f"{first.error_class or '(none)'} in {some(campaigns)}"
    text += f"{began(first, facts.changes)}: {first.fault}: "
    text += f"{', '.join([*first.places[:_MOST], first.why])}."
    if first.message:
        text += f" The latest: {brief(first.message)}."
    proposals = [it.proposal for it in group[:_MOST]]
    remedies = [it.remedy for it in group[:_MOST]]
    return Reason(
        "failing-class",
        text,
        lost=sum(it.attempts for it in group),
        commands=[
            command("failures", first.campaign),
            *changed(facts, group[:_MOST]),
            *dict.fromkeys(it for it in [*proposals, *remedies] if it),
        ],
        figures={"class": first.error_class, "campaign": first.campaign},
        since=min((it.since for it in group if it.since), default=None),
        cost=known_sum(it.cost for it in group),
    )
