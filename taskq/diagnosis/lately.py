"""Reasons in what has changed lately: first attempts fail, or tasks end slower than before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from taskq.diagnosis.facts import CampaignFacts, Facts
from taskq.diagnosis.faults import blamed
from taskq.diagnosis.reasons import Reason, verb
from taskq.model.words import command, counted

#: First attempts, or tasks that end in a quarter of an hour, below which nothing is concluded.
_LEAST: Final = 20
_WINDOW_MIN: Final = 15
#: A pace has dropped if it is below this part of what was usual.
_DROPPED: Final = 1 / 3


def failing(facts: Facts) -> Iterator[Reason]:
    """Name the campaigns in which most of the latest first attempts failed.

    A campaign pauses itself if that is so on several hosts: one bad host is no reason to pause it.
    """
    for campaign in facts.first_attempts:
        attempts = campaign.failures + campaign.done
        if campaign.failures < _LEAST or 2 * campaign.failures <= attempts:
            continue
        if any(it.path == campaign.campaign for it in facts.closed):  # which says why
            continue
        yield Reason(
            "failing",
            f"{campaign.failures:,} of the latest {attempts:,} first attempts in "
            f"{campaign.campaign} failed.",
            lost=campaign.failures,
            commands=[
                command("failures", campaign.campaign),
                command("host", "list", campaign.campaign),
            ],
            figures={
                "campaign": campaign.campaign,
                "failures": campaign.failures,
                "attempts": attempts,
            },
            because=blamed(facts, campaign.campaign),
        )


def slower(facts: Facts, served: Sequence[CampaignFacts]) -> Iterator[Reason]:
    """Say that far fewer tasks end than did, though agents can claim."""
    past, status = facts.past, facts.status
    if past is None or not served:
        return
    ended = status.done + status.failed - past.ended_then
    usual = past.ended_before * _WINDOW_MIN // max(past.minutes_before, _WINDOW_MIN)
    if usual < _LEAST or ended >= usual * _DROPPED:
        return
    yield Reason(
        "slow",
        f"It has become slow: {counted(ended, 'task')} ended in the last {_WINDOW_MIN} minutes, "
        f"and {usual:,} {verb(usual, 'was', 'were')} usual.",
        lost=usual - ended,
        commands=[command("site", "list", status.path), command("host", "list", status.path)],
        figures={"ended": ended, "usual": usual},
    )
