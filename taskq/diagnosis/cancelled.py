"""Campaigns that were cancelled with all their tasks: nothing is left of them that waits."""

from __future__ import annotations

from collections.abc import Iterator

from taskq.diagnosis.facts import Facts
from taskq.diagnosis.reasons import Reason
from taskq.model.seed import is_within
from taskq.model.words import command, counted, instant


def cancelled(facts: Facts) -> Iterator[Reason]:
    """Name the last campaign below that was cancelled today: perhaps it was a mistake.

    Those in which something waits are named elsewhere.
    """
    known = {it.path for it in facts.closed if not it.has_ended} | {facts.status.path}
    its = [
        it
        for it in facts.changes
        if it.state == "cancelled"
        and it.what == ["status"]
        and it.campaign not in known
        and is_within(it.campaign, facts.status.path)
    ]
    if its:
        path = its[0].campaign
        of = f", the last of {counted(len(its), 'campaign')} within a day" if len(its) > 1 else ""
        yield Reason(
            "cancelled",
            f"{path} was cancelled at {instant(its[0].changed_at)} by {its[0].changed_by}{of}.",
            commands=[
                command("campaign", "resume", path),
                command("retry", path, "--status", "cancelled"),
            ],
            figures={"closed": path, "by_itself": False},
            since=its[0].changed_at,
        )
