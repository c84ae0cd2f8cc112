"""Columns chosen of records, each perhaps under a new name."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from taskq.model.errors import UsageError
from taskq.results.ranking import dotted

MAX_COLUMNS = 1_000


class Columns:
    """Names of columns, each with the dotted name of its value in a record.

    A record becomes a row of these columns, with None for a value that it lacks.
    """

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = dict(sources)
        self._empty = set(self._sources)

    @classmethod
    def parse(cls, text: str) -> Columns:
        """Read `NAME` or `NEW=NAME`, joined by commas; a name with a comma is quoted as in CSV.

        Raise `UsageError` if a name is empty, or given twice.
        """
        try:
            (parts,) = csv.reader([text or '""'], strict=True)
        except (csv.Error, ValueError) as error:
            raise UsageError(f"columns {text!r:.200} cannot be read: {error}") from None
        sources: dict[str, str] = {}
        for part in parts:
            new, equals, name = part.strip().partition("=")
            if not new or (equals and not name):
                raise UsageError(f"columns {text!r:.200}: each reads NAME or NEW=NAME")
            if new in sources:
                raise UsageError(f"the column {new!r:.80} is there twice: give one a new name")
            sources[new] = name or new
        if len(sources) > MAX_COLUMNS:
            raise UsageError(f"{len(sources):,} columns; {MAX_COLUMNS:,} at most")
        return cls(sources)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self._sources)

    def of(self, records: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield the chosen columns of records."""
        for record in records:
            row = {new: dotted(record, name) for new, name in self._sources.items()}
            if self._empty:
                self._empty -= {new for new, value in row.items() if value is not None}
            yield row

    def empty(self) -> list[str]:
        """Return the dotted names that had no value in any record so far."""
        return [name for new, name in self._sources.items() if new in self._empty]
