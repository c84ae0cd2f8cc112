"""Agents that are late or have left, for `taskq status`, `watch` and `agents list`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from taskq.model.views import LeftAgent
from taskq.model.words import beginning
from taskq_cli.display.text import one_line

#: Most agents that are read for a summary.
MAX_LEFT_AGENTS: Final = 1_000
_REASONS: Final = 3
_SHOWN_CHARS: Final = 200


def is_late(silent_s: float, lease_s: float) -> bool:
    """Tell whether an agent is silent for longer than one that lives: two heartbeats, and more."""
    return silent_s > lease_s / 2


def summarize_left_agents(left: Sequence[LeftAgent]) -> str:
    """Return how many agents left within the last hour, with the most frequent reasons first."""
    reasons = Counter(_reason(one) for one in left)
    named = [
        text if times == len(left) == 1 else f"{times:,} {text}"
        for text, times in reasons.most_common(_REASONS)
    ]
    more = len(left) - sum(times for _, times in reasons.most_common(_REASONS))
    named += [f"{more:,} for other reasons"] if more else []
    over = "over " if len(left) == MAX_LEFT_AGENTS else ""
    return f"{over}{len(left):,} left within the hour: {'; '.join(named)}"


def _reason(one: LeftAgent) -> str:
    why = beginning(one_line(one.reason or "it did not say why"), _SHOWN_CHARS)
    return f"{why} (exit code {one.exit_code})" if one.exit_code else why
