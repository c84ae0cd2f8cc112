"""Judgement whether failures in a row are the fault of the process in which they happened."""

from __future__ import annotations

from typing import Tuple

#: Fewer failures in a row say nothing.
_FEW = 3
#: A row of failures counts if it had this chance or less in view of all earlier ones.
_CHANCE = 0.001


class Streak:
    """The failures in a row of a resident process. before: how its predecessors did, see `before`.

    A process that has failed from its beginning, as its predecessor did, is not at fault.
    """

    def __init__(self, before: Tuple[int, int, bool] = (0, 0, True)) -> None:
        self._ended, self._failed, self._hopeful = before
        self._has_succeeded = False
        self.length = 0

    def add(self, *, failed: bool) -> bool:
        """Note the end of a call; return whether the process is to be replaced."""
        if not failed:
            self._ended += 1 + self.length
            self._failed += self.length
            self.length, self._has_succeeded = 0, True
            return False
        self.length += 1
        usual = (self._failed + 0.5) / (self._ended + 2)
        may_help = self._has_succeeded or self._hopeful
        return may_help and self.length >= _FEW and usual**self.length <= _CHANCE

    def before(self) -> Tuple[int, int, bool]:
        """Return what a successor needs to know: calls, failures, whether any has succeeded."""
        return self._ended + self.length, self._failed + self.length, self._has_succeeded
