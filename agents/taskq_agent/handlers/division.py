"""Which tasks of a batch make its program fail: a search by starts of fewer of them.

A start that fails leaves tasks without an outcome. Its suspects are those that had begun, or all
of them where the program does not say what has begun; of a program that takes its tasks in order,
the first. One suspect runs alone. Of several, one half runs: if that fails too, the search goes on
in it, else in the other half (group testing; Hwang, J. Am. Stat. Assoc. 67, 1972). Then all that is
left runs together. A task that fails alone is at fault. One task of n at fault costs some
log2(n) + 2 starts.

Nobody is at fault if tasks fail in company only, as by memory that many together exhaust.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Collection, List, Optional, Sequence

_STARTS_BY_LOG = 3


@dataclass(frozen=True)
class _Group:
    """Tasks to start together. suspected: one of them makes the program fail, if one does alone."""

    tasks: List[int]
    suspected: bool = False


class Division:
    """Says which tasks to start next, until all have an outcome or there were enough starts.

    tasks: their numbers, in order. ordered: whether the program takes them in this order.
    most_starts: how many starts follow the first one at most.
    """

    def __init__(self, tasks: Sequence[int], *, ordered: bool = False) -> None:
        self._groups = [_Group([*tasks])]
        self._ordered = ordered
        self.starts = 0
        self.most_starts = _STARTS_BY_LOG * max(1, math.ceil(math.log2(max(2, len(tasks)))))
        #: How many starts of several tasks have failed, and how many tasks failed alone.
        self.failed_together = self.failed_alone = 0

    def next(self) -> Optional[List[int]]:
        """Return the tasks of the next start; None if there is none."""
        if not self._groups or self.starts > self.most_starts:
            return None
        return self._groups[0].tasks

    def left(self) -> List[int]:
        """Return the tasks that need another start."""
        return sorted(task for group in self._groups for task in group.tasks)

    def passed(self) -> None:
        """Note that the start has not failed: none of its tasks needs another."""
        self.starts += 1
        suspected = self._groups.pop(0).suspected
        if self._groups and self._groups[0].suspected and not suspected:
            self._search(self._groups.pop(0).tasks, [])

    def failed(self, unanswered: Sequence[int], begun: Collection[int] = ()) -> Optional[int]:
        """Note that the start has failed; return the task at fault, if it ran alone.

        unanswered: its tasks without an outcome. begun: those of them that had begun, if known.
        """
        self.starts += 1
        started = self._groups.pop(0).tasks
        if not unanswered:
            self._rejoin([])
            return None
        if len(started) == 1:
            self.failed_alone += 1
            self._rejoin([])
            return started[0]
        self.failed_together += 1
        suspects = [task for task in unanswered if task in begun] or [*unanswered]
        if self._ordered:
            suspects = suspects[:1]
        self._search(suspects, [task for task in unanswered if task not in suspects])
        return None

    def _search(self, suspects: List[int], others: Sequence[int]) -> None:
        """Look for one task at fault among the suspects; the others run after that."""
        self._rejoin(others)
        if len(suspects) == 1:
            self._groups.insert(0, _Group(suspects))
            return
        middle = len(suspects) // 2
        halves = _Group(suspects[:middle]), _Group(suspects[middle:], suspected=True)
        self._groups[:0] = halves

    def _rejoin(self, more: Sequence[int]) -> None:
        """Let all that waits run together, with some more."""
        together = sorted({*more, *self.left()})
        self._groups = [_Group(together)] if together else []
