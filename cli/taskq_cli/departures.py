"""What is said of agents that have left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from taskq.views import LeftAgent
from taskq_cli.text import one_line

#: Agents looked at to tell why they have left.
MOST_GROUPED: Final = 1_000
_REASONS: Final = 3
_SHOWN_CHARS: Final = 200


def left_in_words(gone: Sequence[LeftAgent]) -> str:
    """Say how many have left within the hour, and why, the commonest reasons first."""
    reasons = Counter(_reason(one) for one in gone)
    named = [
        text if times == len(gone) == 1 else f"{times:,} {text}"
        for text, times in reasons.most_common(_REASONS)
    ]
    more = len(gone) - sum(times for _, times in reasons.most_common(_REASONS))
    named += [f"{more:,} for other reasons"] if more else []
    over = "over " if len(gone) == MOST_GROUPED else ""
    return f"{over}{len(gone):,} left within the hour: {'; '.join(named)}"


def _reason(one: LeftAgent) -> str:
    why = one_line(one.reason or "it did not say why")[:_SHOWN_CHARS]
    return f"{why} (exit code {one.exit_code})" if one.exit_code else why
