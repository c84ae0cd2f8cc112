"""One bug to be seeded into the shipped code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class Misplaced(Exception):
    """The text to be replaced is not there exactly once: the table has to follow the code."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A text of a file, and what stands in its place when the bug is there.

    text: must occur exactly once in the file. breaks: what is wrong then, in a sentence. first:
    files of tests, or single ones, that are tried before the rest of the suite.
    """

    name: str
    file: str
    text: str
    instead: str
    breaks: str
    first: tuple[str, ...]

    def seeded(self, root: Path) -> str:
        """Return the file under `root` with the bug in it; raise `Misplaced` if it has no place."""
        content = (root / self.file).read_text()
        found = content.count(self.text)
        if found != 1:
            raise Misplaced(f"{self.name}: its text occurs {found} times in {self.file}")
        return content.replace(self.text, self.instead)
