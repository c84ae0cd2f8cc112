"""Looks at every state that can be reached, nearest first, and tells the way to one that is bad."""

from __future__ import annotations

import gc
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.protocol.state import Step

#: Whatever a world is made of; immutable, and a key of a set.
State = Any
Next = Iterator[tuple[Step, State]]


class Explorable(Protocol):
    """What is explored; ends: the rule that from every state all can still come to its end."""

    ends: str

    def initial(self) -> State:
        """Return where it begins."""

    def after(self, state: State) -> Next:
        """Return all that can happen next."""

    def broken_state(self, state: State) -> Iterator[str]:
        """Yield the rules that a state breaks."""

    def broken_step(self, before: State, step: Step, after: State) -> Iterator[str]:
        """Yield the rules that a step breaks."""

    def has_ended(self, state: State) -> bool:
        """Return whether all has come to its end."""


@dataclass
class Found:
    """What an exploration has seen; rule: the one that is broken, and how it came to that."""

    states: int = 0
    transitions: int = 0
    depth: int = 0
    rule: str | None = None
    trace: list[Step] = field(default_factory=list)
    end: State | None = None

    def story(self) -> str:
        """Tell the way to the broken rule, one step a line."""
        return "\n".join(
            [f"broken: {self.rule}", *(f"{n:3} {step}" for n, step in enumerate(self.trace, 1))]
        )


def explore(world: Explorable) -> Found:
    """Explore all states within a world's bounds, or until a rule breaks.

    Millions of objects live until the end: there is no garbage to be looked for.
    """
    collected = gc.isenabled()
    gc.disable()
    try:
        return _Exploration(world).run()
    finally:
        if collected:
            gc.enable()


class _Exploration:
    def __init__(self, world: Explorable) -> None:
        self._world = world
        self._numbers: dict[State, int] = {}
        self._parents: list[tuple[int, Step | None]] = []
        # Without faults: from where, to where.
        self._from = array("l")
        self._to = array("l")
        self._found = Found()

    def run(self) -> Found:
        """Look for broken rules, and then whether every task can still end."""
        found = self._found
        level = [self._world.initial()]
        self._number(level[0], -1, None)
        while level and found.rule is None:
            level = self._next_level(level)
            found.depth += bool(level)
        found.states = len(self._numbers)
        if found.rule is None:
            self._check_that_all_ends()
        return found

    def _next_level(self, level: list[State]) -> list[State]:
        found, world = self._found, self._world
        reached = []
        for state in level:
            number = self._numbers[state]
            for step, after in world.after(state):
                found.transitions += 1
                known = self._numbers.get(after)
                rule = next(world.broken_step(state, step, after), None)
                if known is None:
                    known = self._number(after, number, step)
                    reached.append(after)
                    rule = rule or next(world.broken_state(after), None)
                if rule is not None:
                    self._tell(rule, number, step, after)
                    return []
                if not step.fault and known != number:
                    self._from.append(number)
                    self._to.append(known)
        return reached

    def _number(self, state: State, parent: int, step: Step | None) -> int:
        number = self._numbers[state] = len(self._parents)
        self._parents.append((parent, step))
        return number

    def _tell(self, rule: str, number: int, step: Step | None, end: State) -> None:
        trace = [] if step is None else [step]
        while number > 0:
            number, step = self._parents[number]
            if step is not None:
                trace.append(step)
        self._found.rule, self._found.trace, self._found.end = rule, trace[::-1], end

    def _check_that_all_ends(self) -> None:
        """Walk back from all states in which all has come to its end."""
        came_from: dict[int, list[int]] = {}
        for count, other in zip(self._from, self._to, strict=True):
            came_from.setdefault(other, []).append(count)
        good = bytearray(len(self._parents))
        todo = [number for state, number in self._numbers.items() if self._world.has_ended(state)]
        for number in todo:
            good[number] = 1
        while todo:
            for number in came_from.get(todo.pop(), ()):
                if not good[number]:
                    good[number] = 1
                    todo.append(number)
        stuck = good.find(0)  # the first found is one of the nearest
        if stuck >= 0:
            end = next(state for state, number in self._numbers.items() if number == stuck)
            self._tell(self._world.ends, stuck, None, end)
