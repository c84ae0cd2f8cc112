"""Reasons in what moved at a time: run times, and the numbers that rank results.

They are shown, and accuse nobody: tasks come in an order, which may have changed then.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from taskq.diagnosis.ends import Move
from taskq.diagnosis.reasons import Reason
from taskq.model.words import command, duration, instant

_MOST: Final = 3


def moved(moves: Sequence[Move]) -> Iterator[Reason]:
    """Say which run times and results are others than before a time."""
    for move in moves[:_MOST]:
        step, campaign = move.step, move.campaign
        when = instant(step.since)
        if move.what == "runs":
            before, after = math.exp(step.before), math.exp(step.after)
            text = f"Attempts of {campaign} take {after / before:.1f} times as long since {when}: "
            text += f"{duration(after)}, before {duration(before)}"
        else:
            before, after = step.before, step.after
            text = f"Results of {campaign} are others since {when}: their mean is {after:.4g}, "
            text += f"before {before:.4g}"
        text += f" ({step.attempts:,} attempts). "
        if move.order:
            text += (
                f"Its tasks are others since then, too: {move.order}. Their order explains this."
            )
        else:
            text += (
                "If its tasks are not in an order that explains this, look at what changed then: "
            )
            text += "a program, an input, a file system."
        yield Reason(
            f"{move.what}-moved",
            text,
            commands=[command("host", "list", campaign), command("campaign", "changes", campaign)],
            figures={"campaign": campaign, "before": before, "after": after},
            since=step.since,
        )
