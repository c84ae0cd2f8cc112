"""Explanations, with a look at each command that they propose."""

from __future__ import annotations

import re
from collections.abc import Callable

from taskq import Campaign
from taskq.diagnosis.reasons import Explanation, Reason
from tests.helpers.typed_commands import parse

Make = Callable[..., Campaign]


def explained(campaign: Campaign, key: str | None = None) -> Explanation:
    """Explain; see that each command that is proposed can be typed."""
    found = campaign.explain(key)
    for reason in found.reasons:
        for line in reason.commands:
            for part in re.split(r"(?:;| &&) (?=taskq )", line.partition(" -- PROGRAM")[0]):
                parse(part)
    return found


def only(campaign: Campaign, key: str | None = None) -> Reason:
    """Return the only reason."""
    (reason,) = explained(campaign, key).reasons
    return reason
