"""The tasks that have not ended, as a sorted list of numbers of eight bytes each."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from typing import Final

_COMPACT_ABOVE: Final = 1_024


class Pending:
    """A sorted set of ids that shrinks mostly from its beginning."""

    def __init__(self) -> None:
        self._ids = array("q")
        self._gone = bytearray()
        self._left = 0

    def __len__(self) -> int:
        return self._left

    def __contains__(self, task: int) -> bool:
        place = bisect_left(self._ids, task)
        return place < len(self._ids) and self._ids[place] == task and not self._gone[place]

    def add(self, tasks: Iterable[int]) -> None:
        """Add ids; an id that is there changes nothing."""
        for task in tasks:
            if not self._ids or task > self._ids[-1]:
                self._ids.append(task)
                self._gone.append(0)
                self._left += 1
            elif task not in self:
                self._compact()
                insort(self._ids, task)
                self._gone.append(0)
                self._left += 1

    def discard(self, task: int) -> bool:
        """Remove an id; return whether it was there."""
        place = bisect_left(self._ids, task)
        if place == len(self._ids) or self._ids[place] != task or self._gone[place]:
            return False
        self._gone[place] = 1
        self._left -= 1
        if len(self._ids) > _COMPACT_ABOVE and self._left < len(self._ids) // 2:
            self._compact()
        return True

    def after(self, task: int, count: int) -> list[int]:
        """Return the next ids above an id, in order, `count` at most."""
        found: list[int] = []
        for place in range(bisect_right(self._ids, task), len(self._ids)):
            if not self._gone[place]:
                found.append(self._ids[place])
                if len(found) == count:
                    break
        return found

    def _compact(self) -> None:
        if self._left < len(self._ids):
            kept = zip(self._ids, self._gone, strict=True)
            self._ids = array("q", [task for task, gone in kept if not gone])
            self._gone = bytearray(len(self._ids))
