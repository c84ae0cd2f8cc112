"""Reports of agents that have tasks of the pool."""

from __future__ import annotations

from tests.helpers.scripted_agent import ScriptedAgent


def say(agent: ScriptedAgent, *reports: dict[str, object]) -> list[str]:
    """Report through a gateway, which adds whose word it is; return the verdicts."""
    acks: list[str] = agent.exchange([report | {"session": agent.session} for report in reports])[
        "acks"
    ]
    return acks
