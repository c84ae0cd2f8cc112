"""Hosts, sites and agents that left as records, tables and sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from taskq.model.views import LeftAgent
from taskq.model.words import beginning, counted, duration, percent
from taskq_cli.display.output import Column, Record, as_record
from taskq_cli.display.text import one_line

if TYPE_CHECKING:  # `status` shows agents, and imports no diagnosis of hosts
    from taskq.diagnosis.bans import PlaceKind
    from taskq.diagnosis.places import Place
    from taskq.diagnosis.sample import SampleSize


def place_record(one: Place) -> dict[str, Any]:
    """Return a host or site as a record for JSON."""
    names = ("banned", "verdict", "remark", "loss", "proposal")
    return as_record(one) | {name: getattr(one, name) for name in names}


def sample_line(size: SampleSize) -> str:
    """Return a sentence that says how many attempts a comparison has seen."""
    text = f"Seen: {size}"
    if size.is_cut:
        text += ", in the order of their tasks; few come from places that do little, such as a "
        text += "slowed or banned host"
    return f"{text}."


def place_columns(kind: PlaceKind) -> list[Column]:
    """Return the columns of a table of hosts or sites."""
    return [
        Column(kind, lambda one: one["name"]),
        *([Column("site", yields=2)] if kind == "host" else []),
        Column("agents", yields=3),
        Column("slots", yields=4),
        Column("state", _state, gives_way=True),
        Column("attempts"),
        Column("failed", _failed),
        Column("elsewhere", elsewhere, yields=5),
        Column("run", lambda one: "" if one["run_s"] is None else duration(one["run_s"])),
        Column("times", lambda one: f"{one['slow'].times:.2f}" if one["slow"] else ""),
        Column("use", lambda one: "" if one["use"] is None else percent(one["use"])),
    ]


def _failed(one: Record) -> str:
    return percent(one["bad"] / one["attempts"]) if one["attempts"] else ""


def elsewhere(one: Record) -> str:
    """Return the share of bad attempts in other places."""
    failing = one["failing"]
    return "" if failing is None else percent(failing.elsewhere.share)


def _state(one: Record) -> str:
    """Return what is wrong with the agents of a place."""
    states = [f"banned: {one['banned']}"] if one["ban"] else []
    if one["gone"] and not one["ban"]:
        states.append(one["gone"])
    states += [f"warns: {word}" for word in one["warnings"]]
    if one["apart"]:
        states.append(f"{counted(len(one['apart']), 'bad host')}: {', '.join(one['apart'][:3])}")
    states += [f"{one[what]:,} {what}" for what in ("slowed", "draining", "silent") if one[what]]
    return ", ".join(states)


#: Most agents that a summary reads.
MAX_LEFT_AGENTS: Final = 1_000
_REASONS: Final = 3
_SHOWN_CHARS: Final = 200


def is_late(silent_s: float, lease_s: float) -> bool:
    """Return whether an agent has missed two heartbeats, which a live one does not."""
    return silent_s > lease_s / 2


def summarize_left_agents(left: Sequence[LeftAgent]) -> str:
    """Return how many agents left within the last hour, with the most frequent reasons first."""
    reasons = Counter(_reason(one) for one in left)
    shown = reasons.most_common(_REASONS)
    named = [text if times == len(left) else f"{text} ({times:,})" for text, times in shown]
    more = len(left) - sum(times for _, times in shown)
    named += [f"{more:,} for other reasons"] if more else []
    over = "over " if len(left) == MAX_LEFT_AGENTS else ""
    return f"{over}{len(left):,} left within the hour: {'; '.join(named)}"


def _reason(one: LeftAgent) -> str:
    why = beginning(one_line(one.reason or "it did not say why"), _SHOWN_CHARS)
    return f"{why} (exit code {one.exit_code})" if one.exit_code else why
