"""What a program says about the tasks of one start, line by line; see `batch`.

The first outcome of a task counts. A line that is no answer, or that is about no task of this
start, is ignored and counted. A start that says little else is ended.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

from taskq_agent.batches import BatchTerms
from taskq_agent.handlers import results
from taskq_agent.handlers.base import AttemptOver, Ended, failed
from taskq_agent.handlers.live import Tail
from taskq_agent.protocol import FAILED, MAX_ERROR_CHARS, TIME_LIMIT, Task
from taskq_agent.text import clean

#: Lines that are ignored, of one start, and their bytes.
MOST_IGNORED_LINES = 100_000
MOST_IGNORED_BYTES = 64 << 20
#: Seconds that a program may take to end, once all its tasks have an outcome.
LINGER_S = 60.0
#: Characters that are shown of a line that is ignored.
_SHOWN_CHARS = 100
#: Large results are handed on when so many bytes of them are in memory.
_MOST_AT_ONCE_BYTES = 8 << 20

log = logging.getLogger(__name__)


@dataclass
class Outcomes:
    """What a program says about the tasks of one start.

    tasks: by number. task_limit_s: the time limit of each, from its begin. note: takes those that
    have ended, and those that have begun. folder: of the start; each task has one in it.
    used: returns `cpu_s` since its last call, and peaks of memory. output: of the program, so far.
    first: what a program that stays adds to the numbers, so that no start has those of another.
    overwritten: whether it has written over its outcomes, of which some may be lost.
    first_ignored: the first line that says nothing.

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
    first_ignored: bytes = b""
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

        Peaks of memory are those of the start.
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

    def ignore(self, line: bytes) -> None:
        """Count a line, or a part of one, that says nothing."""
        if not self.ignored:
            self.first_ignored = line[:MAX_ERROR_CHARS]
        self.ignored += 1
        self.ignored_bytes += len(line)

    def why_unanswered(self) -> str:
        """Return what may be wrong with a program that has left out outcomes; or nothing."""
        if self.overwritten:
            return "; it has overwritten $TASKQ_OUTCOMES: it must append, as by >>"
        if not self.ignored:
            return ""
        shown = clean(self.first_ignored.decode("utf-8", "replace"))[:_SHOWN_CHARS]
        return f"; {self.ignored} of its lines are ignored, the first of them: {shown}"

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
        if len(self.answered) == len(self.tasks) and now - self._heard > LINGER_S:
            text = f"the program has not ended {LINGER_S:g} s after its last outcome"
            log.warning("%s: it is ended", text)
            raise _too_long(text)
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
            number = _whole(answer["id"]) - self.first
            begins = answer.get("begun") is True
            if number in self.answered or (begins and number in self.begun):
                self._repeats -= 1
                if self._repeats < 0:
                    self.ignore(line)
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
        except (ValueError, TypeError, LookupError, AttributeError, results.BadAnswer):
            self.ignore(line)
        else:
            self.answered.add(number)  # a later line of the same look does not count either
            ends.append((number, ended))


def _whole(number: Any) -> int:
    """Return a number that was read from JSON as an int; ValueError or TypeError if it is none."""
    if isinstance(number, float) and number.is_integer():  # some write 3.0 for 3
        return int(number)
    if type(number) is not int:
        raise TypeError("a task has a whole number")
    return number


def _too_long(text: str) -> AttemptOver:
    return AttemptOver(failed(TIME_LIMIT, text, retry=True))
