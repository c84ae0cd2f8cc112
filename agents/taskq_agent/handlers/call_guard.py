"""What a resident child does after calls, so that none spoils the process for those behind it.

It puts back what calls have left in the process, and judges whether the child should end: since
something cannot be put back, or since calls fail in a row that did not fail before.

A message has one call, several tasks with a call each, or a chunk of calls. It is looked after at
its end, after the first call of the child, after calls that fail, and otherwise as often as that
takes a small share of the time. So calls that take long are looked after one by one. A call that
fails behind others that nobody has looked after may be their victim: it does not count then.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import List, Mapping, Optional, Sequence, Set, Tuple

from taskq_agent.handlers.process_state import ProcessState
from taskq_agent.handlers.streak import Streak

#: Looks after calls of one message take at most this many seconds, and this share of its time.
_FREE_S = 0.000_02
_SHARE = 0.05
#: What is put back without a word: it is usual, and nobody depends on it.
_SILENT = frozenset({"its working folder", "the filters of warnings"})


class CallGuard:
    """Looks after the calls of this process.

    own: what the function sets up itself, by its names. before: see `Streak`. why: why the child
    should end, if it should. is_exhausted: whether it has left so much open that others may fail.
    lasting: what the first call may have set up.
    """

    def __init__(
        self, state: ProcessState, error: int, own: Sequence[str], before: Tuple[int, int, bool]
    ) -> None:
        self.why: Optional[str] = None
        self.is_exhausted = False
        self.lasting: List[str] = []
        self._state = state
        self._error = error
        self._streak = Streak(before)
        self._first = True
        self._shown: Set[str] = set()
        self._unseen = 0
        self._looks_s = self._begun = 0.0
        state.keep(own)

    def begin(self, folder: str, variables: Mapping[str, str]) -> None:
        """Begin a message, whose calls have this working folder and these variables."""
        self.lasting.clear()
        self._state.begin(folder, variables)
        self._begun, self._looks_s = time.perf_counter(), -_FREE_S

    def begin_call(self, variables: Mapping[str, str]) -> None:
        """Begin a task of a message with several: with the variables that it has of its own."""
        self._state.begin_call(variables)

    def quiet(self) -> None:
        """Let nothing that a call has left interrupt what follows it: right behind each call."""
        self._state.stop_timers()

    def end(self) -> None:
        """Look after the last calls of a message."""
        if self._unseen:
            self._look()

    def after_call(self, *, failed: bool) -> bool:
        """Look after a call, if it is time; return whether it failed and should be called again.

        It may be that an earlier one had changed what is put back now.
        """
        self._unseen += 1
        its_s = _SHARE * (time.perf_counter() - self._begun)
        if self._looks_s >= its_s and not failed and not self._first:
            return False
        unseen, first = self._unseen, self._first
        looked_s = time.thread_time()
        was_changed = self._look(failed=failed)
        if not first:  # that takes much longer
            self._looks_s += time.thread_time() - looked_s
        # What earlier calls have left in number is not counted at each look.
        return failed and was_changed and (unseen > 1 or (self.is_exhausted and not first))

    def ends_after(self, *, failed: bool) -> bool:
        """Note the end of a call; return whether those behind it need another process."""
        if self._streak.add(failed=failed) and self.why is None:
            self._end(f"{self._streak.length} failures in a row")
        return self.why is not None

    @property
    def failures(self) -> int:
        """How many calls have failed in a row."""
        return self._streak.length

    def _look(self, *, failed: bool = False) -> bool:
        """Put back what can be; return whether calls behind a change may have failed by it."""
        for _ in range(2):
            # A late signal of the payload may raise here, which the second look puts an end to.
            with suppress(Exception, SystemExit, KeyboardInterrupt):
                return self._put_back(failed=failed)
        if self.why is None:
            self._end("its state cannot be compared")
        return True

    def _put_back(self, *, failed: bool) -> bool:
        state, first = self._state, self._first
        if not state.is_connected():
            self._say("this call has closed the descriptors of its process, which ends")
            os._exit(0)
        found = state.put_back(first=first)
        for name in found.lasting:
            if name not in self.lasting:
                self.lasting.append(name)
        new = [name for name in found.restored if name not in self._shown and name not in _SILENT]
        if new:
            self._shown.update(new)
            which = "this call" if self._unseen <= 1 else f"one of {self._unseen} calls"
            self._say(f"put back after {which}: {', '.join(new)}")
        if self.why is None:
            if found.stuck:
                self._end(f"it has changed {', '.join(found.stuck)}")
            elif (much := state.exhausted(surely=failed)) is not None:
                self.is_exhausted = True
                self._end(f"it has left {much}")
        self._first, self._unseen = False, 0
        return self.why is not None or bool(found.restored or found.lasting)

    def _end(self, why: str) -> None:
        self.why = why
        self._say(f"the process ends after this call: {why}")

    def _say(self, text: str) -> None:
        with suppress(OSError):
            os.write(self._error, f"taskq: {text}\n".encode("utf-8", "backslashreplace"))
