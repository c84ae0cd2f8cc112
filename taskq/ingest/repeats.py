"""Records that a source has several times: they are one task, and its user should know."""

from __future__ import annotations

from dataclasses import dataclass

from taskq.ingest.sources.records import Source
from taskq.model.seed import Encoded


@dataclass(slots=True)
class Repeats:
    """Records that equal an earlier one of their chunk. first: its number, and the earlier one's.

    Records of earlier chunks are with the database, which counts further ones as known.
    """

    count: int = 0
    first: tuple[int, int] = (0, 0)

    def look(self, record: tuple[int, Encoded], before: tuple[int, Encoded]) -> None:
        """Count a record with the key of an earlier one, if it equals that one."""
        if record[1][:2] == before[1][:2]:
            self.first = self.first if self.count else (record[0], before[0])
            self.count += 1

    def note(self, source: Source) -> None:
        """Say how many there were, and which was the first, in a note on the source."""
        if self.count and source.notes is not None:
            number, before = self.first
            more = f"; so are {self.count - 1:,} further ones" if self.count > 1 else ""
            source.notes.add(
                number, f"the record is that of line {before} again, no new task{more}"
            )
