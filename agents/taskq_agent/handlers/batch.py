"""Many tasks by one start of a program, with an outcome for each, and the one at fault found.

The agent gives numbered tasks, and takes lines of JSON about them, in any order, one by one or all
at once:

    {"id": 3, "begun": true}
    {"id": 3, "result": {...}}
    {"id": 3, "error": "text", "error_class": "name", "verdict": "retry"}

These are answers as of a resident process (see `results`); `outcomes` takes them.

A start has failed if its program exits with another code than 0, 69 and 75, is killed, or exceeds
a limit, while tasks have no outcome. Then `division` finds the tasks at fault: those that fail
alone. Starts for that belong to the same attempt. Tasks that get no outcome go back uncharged.
"""

from __future__ import annotations

import logging
import math
import os
import time
from dataclasses import dataclass, replace
from typing import (
    Callable,
    List,
    Mapping,
    Optional,
    Protocol,
    Sequence,
    Tuple,
    runtime_checkable,
)

from taskq_agent.batches import BatchTerms
from taskq_agent.handlers import exits
from taskq_agent.handlers.base import Ended, TellBatch, failed, refused
from taskq_agent.handlers.division import Division
from taskq_agent.handlers.outcomes import Outcomes
from taskq_agent.protocol import DONE, FAILED, RELEASED, Task

#: Seconds between two looks at what a program has said.
LOOK_S = 0.1

log = logging.getLogger(__name__)

_NOT_STARTED = Ended(RELEASED, started=False)


@dataclass(frozen=True)
class StartEnd:
    """How a start ended. ended: how a task alone would have ended; None after exit code 0.

    tail: the end of its output.
    """

    ended: Optional[Ended]
    tail: Optional[str] = None


@runtime_checkable
class BatchKind(Protocol):
    """Starts a program for many tasks."""

    def start(self, said: Outcomes) -> StartEnd:
        """Give tasks to the program, and what it says to `said`; return how the start ended."""
        ...

    def take_folder(self, name: str, *parts: str) -> str:
        """Return a new scratch folder for `start`; OSError as `SlotFolders.take`."""
        ...


class Batch:
    """Runs tasks by as few starts as it takes to give each its outcome.

    limit_s: the time limit of a task. finish: completes the end of a task with this folder, such as
    by uploads. begin, give_back: take the folder of each start. parts: folders for each task.
    """

    def __init__(
        self,
        kind: BatchKind,
        terms: BatchTerms,
        tasks: Sequence[Task],
        *,
        limit_s: Optional[float],
        tell: TellBatch,
        finish: Callable[[Task, Ended, str], Ended],
        begin: Callable[[str], None],
        give_back: Callable[[str], None],
        parts: Sequence[str] = (),
        used: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        self._kind = kind
        self._terms = terms
        self._tasks = dict(enumerate(tasks, 1))
        self._limit_s = limit_s
        self._tell = tell
        self._finish = finish
        self._begin = begin
        self._give_back = give_back
        self._parts = parts
        self._used = used
        self._division = Division([*self._tasks], ordered=terms.ordered)
        self._done = 0
        #: The class as which the last start of several tasks has failed.
        self._together_as = FAILED

    def run(self) -> None:
        """Run all tasks; the last call of `tell` has those without an outcome.

        OSError if no folder can be made.
        """
        division, ignored, divide_until = self._division, 0, math.inf
        left: List[int] = []
        while not left and time.monotonic() < divide_until:
            numbers = division.next()
            if numbers is None:
                break
            said, end = self._start(numbers)
            ignored += said.ignored
            left = self._judge(said, end)
            if division.failed_together:
                divide_until = min(divide_until, time.monotonic() + self._terms.divide_s)
        if ignored:
            log.warning("%d lines of a start of %d tasks are ignored", ignored, len(self._tasks))
        # Tasks failed in company only, or there were too many starts.
        rest = [] if left else division.left()
        too_large = bool(rest) or division.failed_together > 0 == division.failed_alone
        ends = [(self._tasks[number], _NOT_STARTED) for number in rest]
        too_large_as = None if left else self._together_as if too_large else ""
        self._tell(ends, over=True, too_large_as=too_large_as)

    def _start(self, numbers: Sequence[int]) -> Tuple[Outcomes, StartEnd]:
        if self._division.starts:
            self._tell((), begun=None)
        parts = [
            part
            for number in numbers
            for part in (str(number), *(f"{number}/{it}" for it in self._parts))
        ]
        folder = self._kind.take_folder("batch", *parts)
        try:
            said = Outcomes(
                {number: self._tasks[number] for number in numbers},
                self._terms,
                self._limit_s,
                folder,
                lambda ends, begun: self._ended(ends, begun, folder),
                self._used,
            )
            self._begin(folder)
            return said, self._kind.start(said)
        finally:
            self._give_back(folder)

    def _judge(self, said: Outcomes, end: StartEnd) -> List[int]:
        """Act on the end of a start; return the tasks that went back, if no start is to follow."""
        division, unanswered, ended = self._division, said.unanswered(), end.ended
        if ended is None:
            if unanswered:
                text = "the program has exited with 0, and has given this task no outcome"
                text += said.why_unanswered()
                self._end_for(
                    said, unanswered, failed(exits.NO_OUTCOME, text, retry=True), end.tail
                )
            division.passed()
        elif not unanswered:
            division.failed([])
        elif ended.outcome == RELEASED or ended.exit_code == os.EX_TEMPFAIL:
            return self._hand_back(said, replace(ended, tail=end.tail))
        else:
            if len(said.tasks) > 1:
                self._together_as = ended.error_class or FAILED
            guilty = division.failed(unanswered, said.begun)
            if guilty is not None:
                self._end_for(said, [guilty], ended, end.tail)
        return []

    def _hand_back(self, said: Outcomes, ended: Ended) -> List[int]:
        """Hand back all tasks without an outcome. Of those that have begun it says why."""
        if ended.outcome != RELEASED:  # it asks for another try, but not at once
            ended = replace(
                refused(ended.error_class or "", ended.error or "", exit_code=ended.exit_code),
                refused=not said.answered,
                tail=ended.tail,
            )
        waiting = {*self._division.left()} - said.answered
        first = min(waiting)
        named = {first} if ended.refused or ended.node_broken else said.begun
        self._tell(
            [
                (self._tasks[number], ended if number in named else _NOT_STARTED)
                for number in sorted(waiting)
            ]
        )
        return sorted(waiting)

    def _end_for(
        self, said: Outcomes, numbers: Sequence[int], ended: Ended, tail: Optional[str]
    ) -> None:
        # Where others succeed, this says nothing about the host.
        phases = said.shares(len(numbers))
        ended = replace(ended, tail=tail, raised=self._done > 0, phases=phases)
        self._tell([(self._tasks[number], ended) for number in numbers])

    def _ended(self, ends: Sequence[Tuple[int, Ended]], begun: Sequence[int], folder: str) -> None:
        self._done += sum(ended.outcome == DONE for _, ended in ends)
        finished = [
            (self._tasks[number], self._finish(self._tasks[number], ended, f"{folder}/{number}"))
            for number, ended in ends
        ]
        self._tell(finished, begun=[self._tasks[number] for number in begun])
