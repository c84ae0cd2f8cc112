"""Many tasks by one start of a program, with an outcome for each, and the one at fault found.

The agent gives numbered tasks, and takes lines of JSON about them, in any order, one by one or all
at once:

    {"id": 3, "begun": true}
    {"id": 3, "result": {...}}
    {"id": 3, "error": "text", "error_class": "name", "verdict": "retry"}

These are answers as of a resident process (see `results`). The first outcome of a task counts. A
line that is no such answer, or that is about no task of this start, is ignored and counted. A
start that says little else is ended.

A start has failed if its program exits with another code than 0, 69 and 75, is killed, or exceeds
a limit, while tasks have no outcome. Then `division` finds the tasks at fault: those that fail
alone. Starts for that belong to the same attempt. Tasks that get no outcome go back uncharged.
"""

from __future__ import annotations

import logging
import math
import os
import time
from dataclasses import dataclass, field, replace
from typing import (
    Callable,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Protocol,
    Sequence,
    Set,
    Tuple,
    runtime_checkable,
)

from taskq_agent.batches import BatchTerms
from taskq_agent.handlers import exits, results
from taskq_agent.handlers.base import AttemptOver, Ended, TellBatch, failed, refused
from taskq_agent.handlers.division import Division
from taskq_agent.handlers.live import Tail
from taskq_agent.protocol import DONE, FAILED, RELEASED, TIME_LIMIT, Task

#: Seconds between two looks at what a program has said.
LOOK_S = 0.1
#: Lines that are ignored, of one start, and their bytes.
MOST_IGNORED_LINES = 100_000
MOST_IGNORED_BYTES = 64 << 20
#: Large results are handed on when so many bytes of them are in memory.
_MOST_AT_ONCE_BYTES = 8 << 20

log = logging.getLogger(__name__)

_NOT_STARTED = Ended(RELEASED, started=False)


@dataclass(frozen=True)
class StartEnd:
    """How a start ended. ended: how a task alone would have ended; None after exit code 0.

    tail: the end of its output.
    """

    ended: Optional[Ended]
    tail: Optional[str] = None


@dataclass
class Outcomes:
    """What a program says about the tasks of one start.

    tasks: by number. task_limit_s: the time limit of each, from its begin. note: takes those that
    have ended, and those that have begun. folder: of the start; each task has one in it.
    used: returns `cpu_s` since its last call, and `peak_bytes`. output: of the program, so far.
    first: what a program that stays adds to the numbers, so that no start has those of another.
    overwritten: whether it has written over its outcomes, of which some may be lost.

    The clock of limits stands still while `note` runs, which may upload files: the program may
    have said something meanwhile that nobody has read, or wait until somebody reads it.
    """

    tasks: Mapping[int, Task]
    terms: BatchTerms
    task_limit_s: Optional[float]
    folder: str
    note: Callable[[Sequence[Tuple[int, Ended]], Sequence[int]], None]
    used: Callable[[], Mapping[str, float]] = dict
    first: int = 0
    output: Optional[Tail] = None
    ignored: int = 0
    ignored_bytes: int = 0
    overwritten: bool = False
    #: When the tasks have begun that have no outcome yet.
    begun: Dict[int, float] = field(default_factory=dict)
    answered: Set[int] = field(default_factory=set)
    _blank: int = 0
    _repeats: int = 0
    _since: float = field(default_factory=time.monotonic)
    _last: float = field(default_factory=time.monotonic)
    _heard: float = field(default_factory=time.monotonic)
    _noting_s: float = 0.0

    def place(self, number: int) -> str:
        """Return the folder of a task."""
        return f"{self.folder}/{number}"

    def take(self, lines: Iterable[bytes]) -> None:
        """Take whole lines; the tasks that they end share the time since the last outcome."""
        ends: List[Tuple[int, Optional[Ended]]] = []
        begun: List[int] = []
        for line in lines:
            if line.strip():
                self._take(line, ends, begun)
            else:
                self._blank += 1
            if self._has_said_too_much():
                break
        self.end(ends, begun)

    def end(self, ends: Sequence[Tuple[int, Optional[Ended]]], begun: Sequence[int] = ()) -> None:
        """Take ends, None for one whose result is in its file, and tasks that have begun since."""
        if begun:
            self._note((), begun)
        if not ends:
            return
        self._heard = self._clock()
        phases = self.shares(len(ends))
        tail = self.output.text() if self.output is not None else None
        for number, _ in ends:
            self.answered.add(number)
            self.begun.pop(number, None)
        some: List[Tuple[int, Ended]] = []
        size = 0
        for number, said in ends:  # all large ones together could be more than fits into memory
            ended = results.ended_as_in_file(self.place(number)) if said is None else said
            if ended.outcome == FAILED and ended.tail is None:
                ended = replace(ended, tail=tail)
            some.append((number, replace(ended, phases=phases)))
            size += len(ended.large or b"")
            if size > _MOST_AT_ONCE_BYTES:
                self._note(some, ())
                some, size = [], 0
        if some:
            self._note(some, ())

    def unanswered(self) -> List[int]:
        """Return the tasks without an outcome, in order."""
        return [number for number in self.tasks if number not in self.answered]

    def shares(self, ends: int) -> Dict[str, float]:
        """Return the phases of so many tasks that end together: equal shares since the last ends.

        `peak_bytes` is that of the start.
        """
        now, used = time.monotonic(), dict(self.used())
        run_s, self._last = now - self._last, now
        if "cpu_s" in used:
            used["cpu_s"] = round(used["cpu_s"] / ends, 6)
        return {"run_s": round(run_s / ends, 6), **used}

    def read_anew(self) -> None:
        """Note that lines so far are overwritten; each may come again without being counted."""
        self.overwritten = True
        self._repeats = len(self.begun) + 2 * len(self.answered)

    def ignore(self, size: int) -> None:
        """Count a line of so many bytes, or a part of one, that says nothing."""
        self.ignored += 1
        self.ignored_bytes += size

    def check_lines(self) -> None:
        """Raise AttemptOver if the program has said too much that is ignored."""
        if self._has_said_too_much():
            text = (
                f"more than {MOST_IGNORED_LINES} of its lines, or {MOST_IGNORED_BYTES >> 20} MiB, "
                "were no outcomes of its tasks"
            )
            raise AttemptOver(failed("bad-answer", text, retry=True))

    def _has_said_too_much(self) -> bool:
        lines = self.ignored + self._blank
        return lines > MOST_IGNORED_LINES or self.ignored_bytes > MOST_IGNORED_BYTES

    def check(self) -> None:
        """Raise AttemptOver if the start, or a task that has begun, has taken or said too much."""
        self.check_lines()
        now, terms, task_s = self._clock(), self.terms, self.task_limit_s
        limit_s = terms.limit_s
        if task_s is not None:
            for number, since in self.begun.items():
                if now - since > task_s:
                    self.begun = {number: since}  # the others are no suspects
                    raise _too_long(f"a task has exceeded its time limit of {task_s:g} s")
            if len(self.tasks) == 1:
                limit_s = task_s
            elif limit_s is None:
                limit_s = task_s * len(self.tasks)
        if limit_s is not None and now - self._since > limit_s:
            raise _too_long(f"the start has exceeded its time limit of {limit_s:g} s")
        if terms.silence_s is not None and now - self._heard > terms.silence_s:
            text = f"no outcome has come for {terms.silence_s:g} s"
            raise AttemptOver(failed("batch-silence", text, retry=True))

    def _clock(self) -> float:
        return time.monotonic() - self._noting_s

    def _note(self, ends: Sequence[Tuple[int, Ended]], begun: Sequence[int]) -> None:
        since = time.monotonic()
        self.note(ends, begun)
        self._noting_s += time.monotonic() - since

    def _take(self, line: bytes, ends: List[Tuple[int, Optional[Ended]]], begun: List[int]) -> None:
        try:
            answer = results.parsed(line)
            number = answer["id"] - self.first
            begins = answer.get("begun") is True
            if number in self.answered or (begins and number in self.begun):
                self._repeats -= 1
                if self._repeats < 0:
                    self.ignore(len(line))
                return
            if number not in self.tasks:
                raise ValueError("it is about no task of this start")  # noqa: TRY301 - as if torn
            if begins:
                self.begun[number] = self._clock()
                begun.append(number)
                return
            ended = None
            if not results.is_in_file(answer):
                ended = results.ended_by(answer, answer["id"], self.place(number))
        except (ValueError, TypeError, KeyError, AttributeError, results.BadAnswer):
            self.ignore(len(line))
        else:
            self.answered.add(number)  # a later line of the same look does not count either
            ends.append((number, ended))


def _too_long(text: str) -> AttemptOver:
    return AttemptOver(failed(TIME_LIMIT, text, retry=True))


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
                if said.overwritten:
                    text += "; it has overwritten $TASKQ_OUTCOMES: it must append, as by >>"
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
