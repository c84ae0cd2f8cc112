"""Hosts and sites as records, and agents that left in a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from taskq.diagnosis.tables.agents import why_left
from taskq.model.views import LeftAgent
from taskq.model.words import beginning
from taskq_cli.display.output import as_record
from taskq_cli.display.text import one_line

if TYPE_CHECKING:  # `status` shows agents, and imports no diagnosis of hosts
    from taskq.diagnosis.places import Place

#: Most agents that a summary reads.
MAX_LEFT_AGENTS: Final = 1_000
_REASONS: Final = 3
_SHOWN_CHARS: Final = 200


def place_record(place: Place) -> dict[str, Any]:
    """Return a host or site as a record for JSON."""
    names = ("banned", "verdict", "remark", "loss", "proposal")
    return as_record(place) | {name: getattr(place, name) for name in names}


def summarize_left_agents(left: Sequence[LeftAgent]) -> str:
    """Return how many agents left within the last hour, with the most frequent reasons first."""
    reasons = Counter(_reason(agent) for agent in left)
    shown = reasons.most_common(_REASONS)
    named = [text if times == len(left) else f"{text} ({times:,})" for text, times in shown]
    more = len(left) - sum(times for _, times in shown)
    named += [f"{more:,} for other reasons"] if more else []
    over = "over " if len(left) == MAX_LEFT_AGENTS else ""
    return f"{over}{len(left):,} left within the hour: {'; '.join(named)}"


def _reason(agent: LeftAgent) -> str:
    why = beginning(one_line(why_left(agent)), _SHOWN_CHARS)
    return f"{why} (exit code {agent.exit_code})" if agent.exit_code else why
