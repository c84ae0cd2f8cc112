"""Looks at every state that can be reached, nearest first, and tells the way to one that is bad."""

from __future__ import annotations

import gc
from array import array
from dataclasses import dataclass, field

from tests.protocol.queue import Queue
from tests.protocol.rules import ENDS, broken_state, broken_step
from tests.protocol.state import FINAL, State, Step, initial
from tests.protocol.world import World


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


def explore(queue: Queue) -> Found:
    """Explore all states within the queue's bounds, or until a rule breaks.

    Millions of objects live until the end: there is no garbage to be looked for.
    """
    collected = gc.isenabled()
    gc.disable()
    try:
        return _Exploration(queue).run()
    finally:
        if collected:
            gc.enable()


class _Exploration:
    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._world = World(queue)
        self._numbers: dict[State, int] = {}
        self._parents: list[tuple[int, Step | None]] = []
        # Without faults: from where, to where.
        self._from = array("l")
        self._to = array("l")
        self._found = Found()

    def run(self) -> Found:
        """Look for broken rules, and then whether every task can still end."""
        found = self._found
        level = [initial(self._queue.bounds)]
        self._number(level[0], -1, None)
        while level and found.rule is None:
            level = self._next_level(level)
            found.depth += bool(level)
        found.states = len(self._numbers)
        if found.rule is None:
            self._check_that_all_ends()
        return found

    def _next_level(self, level: list[State]) -> list[State]:
        found, bounds = self._found, self._queue.bounds
        reached = []
        for state in level:
            number = self._numbers[state]
            for step, after in self._world.after(state):
                found.transitions += 1
                known = self._numbers.get(after)
                rule = next(broken_step(bounds, state, step, after), None)
                if known is None:
                    known = self._number(after, number, step)
                    reached.append(after)
                    rule = rule or next(broken_state(self._queue, after), None)
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
        """Walk back from all states in which every task is final."""
        came_from: dict[int, list[int]] = {}
        for one, other in zip(self._from, self._to, strict=True):
            came_from.setdefault(other, []).append(one)
        good = bytearray(len(self._parents))
        todo = [
            number
            for state, number in self._numbers.items()
            if all(task.status in FINAL for task in state.tasks)
        ]
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
            self._tell(ENDS, stuck, None, end)
