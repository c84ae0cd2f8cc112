"""What keeps agents from the tasks of a campaign, in the clauses that all views and messages share.

Reasons, forecasts, the tree of campaigns and answers to agents know the facts in different ways;
they use the same words for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from taskq.diagnosis.reasons import brief
from taskq.model.requirements import tag_words
from taskq.model.seed import is_within
from taskq.model.words import command


def closed(path: str, state: str, paused_why: str | None, own: str) -> str:
    """Return who closed a campaign, such as `/a (a campaign above) was paused by an operator`.

    state: paused or cancelled. own: the campaign that the text is about, at or below `path`, or a
    campaign above it.
    """
    above = " (a campaign above)" if path != own and is_within(own, path) else ""
    if paused_why is not None:
        return f"{path}{above} paused itself: {brief(paused_why)}"
    return f"{path}{above} was {state} by an operator"


def no_handler(tasks: str) -> str:
    """Return what follows from a missing handler. tasks: a pronoun for the tasks."""
    return f"no handler, so no agent can run {tasks}"


def unserved(campaigns: str) -> str:
    """Return that campaigns have no agents. campaigns: a path or a pronoun."""
    return f"no agent serves {campaigns}"


def not_offered(tags: Sequence[str]) -> str:
    """Return that no agent has all required tags."""
    words = " ".join(map(tag_words, tags))
    return f"no agent at work offers {words}{' together' if len(tags) > 1 else ''}"


def unservable(row: Mapping[str, Any]) -> list[str]:
    """Return why tasks are not for an agent, by campaign, from a row of `left_over`."""
    reasons = []
    for campaign in row["campaigns"]:
        path, requires = campaign["path"], " ".join(map(tag_words, campaign["requires"]))
        if not campaign["has_handler"]:
            change = f"{command('campaign', 'change', path)} -- PROGRAM ARGUMENT..."
            reasons.append(f"{path} has {no_handler('its tasks')}; `{change}` gives it one")
        elif campaign["paused_why"] is not None:
            why = closed(path, "paused", campaign["paused_why"], path)
            resume = command("campaign", "resume", path)
            reasons.append(f"{why}; `{resume}` when that is repaired")
        else:
            reasons.append(f"{path} requires {requires}, which this agent does not offer")
    return [*reasons, f"{row['more']:,} more campaigns"] if row["more"] else reasons
