"""Forms of problems: when and for which tasks a fault shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ALWAYS: Final = "always"
CHANCE: Final = "by chance"
SINCE: Final = "since a time"
SIZE: Final = "by size"
PAIR: Final = "by pair"
FORMS: Final = (ALWAYS, CHANCE, SINCE, SIZE, PAIR)

#: Tasks of a campaign have sizes from 0 to `SIZES` - 1; those from `LARGE` on are large.
SIZES: Final = 6
LARGE: Final = 4
#: Every so many tasks have an input of another sort, which one program alone may not like.
SORTS: Final = 3


@dataclass(frozen=True)
class Form:
    """A form. part: the share of tasks in percent that a fault by chance hits."""

    name: str
    part: int = 50

    @property
    def is_late(self) -> bool:
        """Whether the problem comes while a healthy farm is at work."""
        return self.name == SINCE

    @property
    def test(self) -> str:
        """Return the test of the shell that says whether a task is hit."""
        if self.name == CHANCE:
            return f'[ "$(od -An -N1 -tu1 /dev/urandom)" -lt {self.part * 256 // 100} ]'
        if self.name == SIZE:
            return f'[ "$size" -ge {LARGE} ]'
        return ":"

    def hits(self, n: int) -> bool:
        """Return whether the input of a task is hit; that of SINCE is seeded in time."""
        if self.name == CHANCE:
            return (n * 7_919 + 13) % 100 < self.part
        if self.name == SIZE:
            return size_of(n) >= LARGE
        if self.name == PAIR:
            return n % SORTS == 0
        return True


def size_of(n: int) -> int:
    """Return the size of a task."""
    return n // 2 % SIZES
