"""A program for many tasks whose crashes are planned, in place of a process: thousands of starts.

All that judges what it says is real: `Batch`, `Outcomes` and `Division`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from taskq_agent.batches import BatchTerms
from taskq_agent.handlers.base import Ended
from taskq_agent.handlers.batch import Batch, StartEnd
from taskq_agent.handlers.outcomes import Outcomes
from taskq_agent.protocol import Task


@dataclass
class SimulatedProgram:
    """Crashes at some of its tasks.

    guilty: it crashes when it comes to one of them. together: tasks of which any two crash it.
    most: more tasks than these crash it at once. skipped: it says nothing about them.
    order: of tasks in a start, drawn anew for each; None: as they are given.
    at_once: it says all outcomes at its end, so a crash loses them. begins: tasks that it calls
    begun, rightly or not, as soon as it starts; marks: it also says what it comes to.
    noise: it says foreign, torn and repeated lines too.
    """

    guilty: Collection[int] = ()
    together: Collection[int] = ()
    most: int = 10**9
    skipped: Collection[int] = ()
    order: random.Random | None = None
    at_once: bool = False
    begins: Collection[int] = ()
    marks: bool = False
    noise: bool = False
    starts: list[list[int]] = field(default_factory=list)
    _answered: set[int] = field(default_factory=set)

    def take_folder(self, *_: str) -> str:
        """Return a name: nothing is written."""
        return "/nowhere"

    def start(self, said: Outcomes) -> StartEnd:
        """Run to the end, or to the first crash."""
        numbers = [*said.tasks]
        assert not self._answered & {*numbers}, "what has an outcome starts no more"
        self.starts.append([*numbers])
        said.take([_line(number, begun=True) for number in numbers if number in self.begins])
        if self.order is not None:
            self.order.shuffle(numbers)
        kept: list[bytes] = []
        crash = Ended("failed", error_class="signal-SIGSEGV")
        if len(numbers) > self.most or len({*numbers} & {*self.together}) > 1:
            return StartEnd(crash)
        for number in numbers:
            if self.marks:
                said.take([_line(number, begun=True)])
            if number in self.guilty:
                return StartEnd(crash)
            if number not in self.skipped:
                kept += self._lines(number)
            if not self.at_once:
                self._say(said, kept)
                kept = []
        self._say(said, kept)
        return StartEnd(None)

    def _say(self, said: Outcomes, lines: list[bytes]) -> None:
        said.take(lines)
        self._answered |= {*said.answered}

    def _lines(self, number: int) -> list[bytes]:
        line = _line(number, result={"n": number})
        if not self.noise:
            return [line]
        foreign = [_line(10**6 + number, result={}), _line(0, error="x"), b"[]", b'"x"', b"\xff"]
        return [line[:-3], *foreign, line, _line(number, error="again"), _line(number, result={})]


@dataclass
class Ends:
    """What became of tasks. charged: the error class of each that has failed."""

    done: list[int] = field(default_factory=list)
    back: list[int] = field(default_factory=list)
    charged: dict[int, str | None] = field(default_factory=dict)
    too_large_as: str | None = None


def run_program(program: SimulatedProgram, tasks: int, terms: BatchTerms) -> Ends:
    """Let a program run so many tasks; each has one end."""
    found, known = Ends(), set[int]()

    def tell(
        ends: Sequence[tuple[Task, Ended]],
        *,
        over: bool = False,
        too_large_as: str | None = None,
        begun: Sequence[Task] | None = (),  # noqa: ARG001
    ) -> None:
        for task, ended in ends:
            assert task.task not in known
            known.add(task.task)
            if ended.outcome == "done":
                assert ended.result == {"n": task.task}
                found.done.append(task.task)
            elif ended.outcome == "failed":
                found.charged[task.task] = ended.error_class
            else:
                assert not ended.started, "what goes back has not begun, and costs nothing"
                found.back.append(task.task)
        if over:
            found.too_large_as = too_large_as

    Batch(
        program,
        terms,
        [Task(1, 1, n, f"k{n}", 1, f"lease{n}", {}) for n in range(1, tasks + 1)],
        limit_s=None,
        tell=tell,
        finish=lambda _, ended, __: ended,
        begin=lambda _: None,
        give_back=lambda _: None,
    ).run()
    assert known == {*range(1, tasks + 1)}
    return found


def terms_of(size: int, *, ordered: bool = False, divide_s: float = 3_600.0) -> BatchTerms:
    """Return terms without time limits."""
    return BatchTerms(size, ordered, None, None, divide_s, "")


def _line(number: int, **said: object) -> bytes:
    return json.dumps({"id": number, **said}).encode()
