"""Several calls of a function with one message to the child, for calls that take little time.

Each call stays a task: it has its own answer, report and retry. A pipe holds a token for each call
of the bundle. The child takes a token before each call, so the other tokens are the calls that have
not begun. The agent takes these to give calls behind a slow one to other slots. The child takes
them after a call that left something in its scratch folder, which the next one must not see.

The child answers each call with a line. The agent looks only every few milliseconds, so that many
answers wake it once. The last line says that the child is done with the bundle; there are no tokens
of another one before. After each call the child writes a mark to its standard error, so that output
is known to be that of one call.
"""

from __future__ import annotations

import os
import secrets
from collections import deque
from contextlib import suppress
from dataclasses import replace
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Sequence

from taskq_agent.handlers import environment, exits, results
from taskq_agent.handlers.base import MOST_CALLS, AttemptOver, Ended, Tell, failed
from taskq_agent.handlers.environment import KindContext
from taskq_agent.handlers.live import Tail
from taskq_agent.handlers.processes import Channel, ChildExited
from taskq_agent.protocol import Held, Task

#: Seconds between two looks at the answers.
LOOK_S = 0.002
#: Seconds after which a call is slow: those behind it go back.
SLOW_S = 0.05


class CallTokens:
    """A pipe with a token for each call of a bundle that has not begun."""

    def __init__(self) -> None:
        self.fd, self._write_fd = os.pipe()
        os.set_blocking(self.fd, False)

    def put(self, number: int) -> None:
        """Add tokens."""
        os.write(self._write_fd, b"." * number)

    def take_all(self) -> int:
        """Take the tokens that nobody has taken; return how many there were."""
        try:
            return len(os.read(self.fd, MOST_CALLS))
        except BlockingIOError:
            return 0

    def close(self) -> None:
        """Close both ends."""
        os.close(self.fd)
        os.close(self._write_fd)


class MarkedOutput:
    """Divides the output of a child by its marks: one tail for each call that has ended."""

    def __init__(self, current: Tail) -> None:
        self.mark = f"\x1e{secrets.token_hex(8)}\n".encode()
        self._current = current
        self._unread = b""
        self._tails: Deque[Optional[str]] = deque()

    def add(self, chunk: bytes) -> None:
        """Take what the child has written."""
        *ended, self._unread = (self._unread + chunk).split(self.mark)
        for text in ended:
            self._current.add(text)
            self._tails.append(self._current.text())
            self._current.clear()
        if b"\x1e" not in self._unread[-len(self.mark) :]:
            self._current.add(self._unread)
            self._unread = b""

    def end(self) -> None:
        """Take the rest as output of the current call."""
        self._current.add(self._unread)
        self._unread = b""

    def next_tail(self, read: Callable[[], None]) -> Optional[str]:
        """Return the output of the next call that has ended; read: reads what has come."""
        if not self._tails:
            read()  # the mark was written before the answer
        return self._tails.popleft() if self._tails else None


class Bundle:
    """Runs several calls in a child that is prepared for them.

    first: the number of the first question. finish: completes the end of a call, such as by an
    upload of its result.
    """

    def __init__(
        self,
        context: KindContext,
        child: Channel,
        tokens: CallTokens,
        tasks: Sequence[Task],
        folder: str,
        *,
        first: int,
        time_limit_s: Optional[float],
        tell: Tell,
        finish: Callable[[Task, Ended], Ended],
    ) -> None:
        self._context = context
        self._child = child
        self._tokens = tokens
        self._tasks = tasks
        self._folder = folder
        self._first = first
        self._time_limit_s = time_limit_s
        self._tell = tell
        self._finish = finish
        self._output = MarkedOutput(child.output)
        self.answered = 0
        #: How many calls have begun or may begin.
        self._left = len(tasks)
        self._is_over = False
        #: Whether the child can run more.
        self.is_whole = True
        #: The last line of the child, with what it says of its own state.
        self.last: Mapping[str, Any] = {}

    def run(self) -> Optional[Ended]:
        """Run the calls; return the end of the call that ended the child, if one did."""
        self._tokens.put(len(self._tasks))
        self._child.send_output_to(self._output.add)
        self._child.send(self._question())
        watch = self._context.watch
        try:
            self._show_current()
            while not self._is_over:
                patient = self._child.wait(SLOW_S)
                self._take_answers()
                if not patient or watch.give_back:
                    watch.give_back = False
                    self._take_back()
                elif not self._is_over:
                    watch.pause(LOOK_S)
            return None
        except AttemptOver as over:
            self._child.group.terminate(self._context.settings.grace_s)
            return self._broken(over.ended)
        except results.BadAnswer as error:
            return self._broken(failed("bad-answer", f"the child {error}", retry=True))
        except ChildExited:
            return self._broken(exits.without_answer(self._child.group.end()))
        finally:
            self._child.send_output_to(None)

    def _question(self) -> Dict[str, Any]:
        folder, tasks = self._folder, self._tasks
        return {
            "id": self._first,
            "env": environment.of_task(tasks[0], folder),
            "folder": folder,
            "mark": self._output.mark.decode(),
            "calls": [[environment.names_of(task), task.payload] for task in tasks],
        }

    def _take_answers(self) -> None:
        ends: List[Ended] = []
        apart = False
        try:
            for answer in self._child.answers():
                if "over" in answer:
                    apart, self._is_over = answer["over"] is True, True
                    self.last = answer
                else:
                    ends.append(self._end(answer, self._first + self.answered + len(ends)))
        finally:
            self.answered += len(ends)
            unbegun = self._left - self.answered if self._is_over else 0
            self._left -= unbegun
            if self._is_over:
                self._tokens.take_all()
            if ends or unbegun:
                self._tell(ends, unbegun, apart)
        self._show_current()
        if not self._is_over:
            self._child.check()

    def _end(self, answer: Dict[str, Any], number: int) -> Ended:
        ended = results.ended_by(answer, number, self._folder)
        run_s, cpu_s = answer["took"]
        tail = self._output.next_tail(self._child.group.read_available)
        phases = {"run_s": round(run_s, 6), "cpu_s": round(cpu_s, 6)}
        if number - self._first >= len(self._tasks):
            raise results.BadAnswer("answers more calls than it got")
        task = self._tasks[number - self._first]
        return self._finish(task, replace(ended, phases=phases, tail=tail))

    def _take_back(self) -> None:
        unbegun = self._tokens.take_all()
        if unbegun:
            self._left -= unbegun
            self._tell((), unbegun, False)

    def _show_current(self) -> None:
        """Show the call at work in heartbeats, and limit its time."""
        if self.answered < self._left:
            task, live = self._tasks[self.answered], self._context.live
            live.begin(Held(task.campaign, task.task, task.lease), self._folder)
            live.writes_to(self._child.output)
            self._context.watch.limit(self._time_limit_s)

    def _broken(self, ended: Ended) -> Optional[Ended]:
        """Give back what has not begun; return the end of the call that had, if any."""
        self.is_whole = False
        with suppress(results.BadAnswer, ChildExited):
            self._take_answers()
        self._take_back()
        self._output.end()
        if self.answered < self._left:
            return replace(ended, tail=self._child.output.text())
        return None
