"""What the agent's core wants done, in the order in which it came to want it."""

from __future__ import annotations

from typing import List

from taskq_agent.core.events import Action, Say


class Outbox:
    """The actions that follow from one event; the parts of the core share it."""

    def __init__(self) -> None:
        self._actions: List[Action] = []

    def add(self, *actions: Action) -> None:
        """Want these done, after all that is wanted already."""
        self._actions += actions

    def say(self, level: int, text: str, *args: object) -> None:
        """Want a line logged."""
        self._actions.append(Say(level, text, args))

    def emptied(self) -> List[Action]:
        """Return all that is wanted, and forget it."""
        actions, self._actions = self._actions, []
        return actions
