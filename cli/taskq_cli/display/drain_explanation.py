"""Explanation of a `taskq agents drain` that matched no agent, with the agents that are there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from taskq.model.views import AgentView
from taskq.model.words import counted
from taskq_cli.display.text import most_common

SHOWN: Final = 5

_OF: Final[Mapping[str, Callable[[AgentView], str]]] = {
    "site": lambda agent: agent.site,
    "name": lambda agent: agent.agent,
    "host": lambda agent: agent.host,
}


def explain_none_drained(
    agents: Sequence[AgentView], path: str, wanted: Mapping[str, Sequence[str]]
) -> str:
    """Return a sentence that says why the drain order marked none of these agents.

    agents: open sessions that serve the path, or a campaign below or above it. wanted: the values
    that were asked for, by `site`, `name` and `host`; an empty sequence means any value.
    """
    below = path.rstrip("/") + "/"
    here = [one for one in agents if one.path == path or one.path.startswith(below)]
    if not here:
        if not agents:
            return f"No agent that serves {path} is at work; see `taskq agents list`."
        above = counted(len(agents), "agent")
        return f"No agent serves just {path} or what is below it; {above} of campaigns above may."
    for what, names in wanted.items():
        there = Counter(_OF[what](one) for one in here)
        if names and not set(names) & set(there):
            none = f"Of the agents of {path} there is none of this {what}"
            return f"{none}; there are: {most_common(there, SHOWN)}."
    matching = [one for one in here if _matches(one, wanted)]
    if not matching:
        return f"No agent of {path} fits all that was asked for; see `taskq agents list {path}`."
    return f"{counted(len(matching), 'agent')} of these had been told before."


def _matches(agent: AgentView, wanted: Mapping[str, Sequence[str]]) -> bool:
    return all(not names or _OF[what](agent) in names for what, names in wanted.items())
