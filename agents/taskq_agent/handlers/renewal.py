"""Judgement when a resident child is replaced by a new one, which has to prepare again.

It ends after `tasks_per_child` tasks, when it says so itself, and when calls fail in a row that did
not fail before. It also ends before a retry, and when a call has left what may be the function's
own set-up; since these may be for nothing, they take a bounded part of the slot's time.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Collection, Dict, List, Mapping, Optional, Set

from taskq_agent.handlers.streak import Streak

#: What new children that may be for nothing cost a slot at most: so many seconds, and a share.
_FREE_S = 10.0
_SHARE = 0.1


class Renewal:
    """The children of one slot for one campaign. most_tasks: for each child; None: any number."""

    def __init__(
        self, most_tasks: Optional[int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most_tasks = most_tasks
        self._clock = clock
        self._began = clock()
        self._spent_s = 0.0
        self._own: Set[str] = set()
        self._set_up: Set[str] = set()
        self._streak = Streak()
        self._tasks = 0
        self._start_s = self._first_s = self._last_s = 0.0

    def order(self) -> Dict[str, Any]:
        """Return what a new child needs to know: see `call_guard`."""
        return {"own": sorted(self._own), "before": self._streak.before()}

    def started(self, took_s: float) -> None:
        """Note that a child has started and is prepared."""
        self._streak = Streak(self._streak.before())
        self._tasks, self._start_s = 0, took_s

    def room(self) -> Optional[int]:
        """Return how many tasks the child may still run; None: any number."""
        return None if self._most_tasks is None else max(0, self._most_tasks - self._tasks)

    def is_due(self, attempt: int) -> bool:
        """Return whether this attempt should have a new child: it is a retry."""
        return attempt > 1 and self._tasks > 0 and self._spends()

    def ended(
        self, *, failed: bool, run_s: float, why: object = None, left: Collection[str] = ()
    ) -> Optional[str]:
        """Note the end of a task; return why the child should end now, if it should.

        why, left: what the child itself says.
        """
        self._tasks += 1
        self._last_s = run_s
        if self._tasks == 1:
            self._first_s = run_s
        if self._streak.add(failed=failed) and why is None:
            why = f"{self._streak.length} failures in a row"
        return self._reason(why, left)

    def several_ended(
        self, tasks: int, *, why: object = None, left: Collection[str] = ()
    ) -> Optional[str]:
        """Note the end of tasks that had one message together; as `ended`."""
        self._tasks += tasks
        return self._reason(why, left)

    def _reason(self, why: object, left: Collection[str]) -> Optional[str]:
        if why is not None:
            return str(why)
        if left and (names := self._unusual(left)) and self._spends():
            return f"a call has changed {', '.join(names)}"
        if self.room() == 0:
            return f"it has run {self._tasks} tasks, as many as it may"
        return None

    def _unusual(self, left: Collection[str]) -> List[str]:
        """Return what is not the function's own; what two first calls in a row have changed is."""
        if self._tasks == 1:
            self._own |= self._set_up.intersection(left)
            self._set_up = set(left)
        return sorted(set(left) - self._own)

    def _spends(self) -> bool:
        """Return whether another child that may be for nothing is not too dear, and count it."""
        if self._spent_s > _FREE_S + _SHARE * (self._clock() - self._began):
            return False
        self._spent_s += self._start_s + max(0.0, self._first_s - self._last_s)
        return True


def said(answer: Mapping[str, Any]) -> Dict[str, Any]:
    """Return what a child of ours says of its own state, for `Renewal.ended`."""
    left = answer.get("lasting")
    return {"why": answer.get("end"), "left": left if isinstance(left, list) else ()}
