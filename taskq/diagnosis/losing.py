"""Reasons in places whose agents are lost again and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from taskq.diagnosis.lost_agents import LosingPlace
from taskq.diagnosis.reasons import Reason, some, verb
from taskq.model.words import command, counted, duration, instant

#: Class of attempts whose agents were lost, if no batch system says why; see `give_back` in SQL.
AGENT_LOST: Final = "agent-lost"
_MOST_SHOWN: Final = 3


def losing(path: str, places: Sequence[LosingPlace]) -> Iterator[Reason]:
    """Name the places whose agents are lost again and again."""
    for it in sorted(places, key=lambda it: -it.attempts)[:_MOST_SHOWN]:
        at = f"on host {it.name}"
        if it.kind == "site":
            at = f"at site {it.name} ({verb(len(it.hosts), 'host', 'hosts')} {some(it.hosts)})"
        span_s = (it.until - it.since).total_seconds()
        text = f"Agents {at} are lost again and again since {instant(it.since)}: "
        text += f"{it.incidents:,} times within {duration(span_s)}, elsewhere {it.elsewhere:,} "
        text += f"times; {counted(it.attempts, 'attempt')} {verb(it.attempts, 'was', 'were')} lost "
        text += "with them. "
        if it.only:
            text += f"All of these agents had tasks of {it.only}: look at what those need. "
        text += "Others come in their place, so no campaign fails for it. Something ends agents "
        text += "there without a word, such as a batch system whose limits jobs exceed, a lack of "
        text += "memory, or machines that restart: look at its accounting, and at their system logs"
        yield Reason(
            "agents-lost",
            f"{text}.",
            lost=it.attempts,
            commands=[command("agent", "list", path, "--left"), command("host", "list", path)],
            figures={
                it.kind: it.name,
                "incidents": it.incidents,
                "elsewhere": it.elsewhere,
                "agents": it.agents,
                "attempts": it.attempts,
            },
            since=it.since,
        )
