"""Records as rows of a table: columns chosen by name, or taken from a sample of the records."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import NoneType
from typing import Any, Final, TypeAlias

from taskq.model.errors import UsageError
from taskq.model.words import as_json
from taskq.results.ranking import dotted

MAX_COLUMNS: Final = 1_000
SAMPLE_RECORDS: Final = 1_000
SAMPLE_BYTES: Final = 16_777_216
REST: Final = "rest"  # the column for values without a column

#: Types of most values, which are not mappings: `isinstance` takes long for any other type.
_SINGLE: Final = frozenset({str, int, float, bool, NoneType})

Flat: TypeAlias = Mapping[str, Any]


class Table:
    """Records as rows, read once; the first ones decide the columns.

    An object within a record has a column for each of its names, such as `payload.smiles`; deeper
    values stay whole. Columns are in the order of their first appearance, those of one object side
    by side. Reading the rows empties the sample.

    columns   the names of the columns
    sample    the deciding records, flat: 1,000 and one that shows that there are more,
              or fewer if they reach 16 MiB
    complete  whether all records are in the sample
    rest      the name of the column for values without one; ends in `_` if the name is taken
    """

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        self.sample: deque[Flat] = deque()
        self.complete = True
        self._following = map(_flat, records)
        size = 0
        for flat in self._following:
            self.sample.append(flat)
            size += len(as_json(flat))
            if len(self.sample) > SAMPLE_RECORDS or size > SAMPLE_BYTES:
                self.complete = False
                break
        self.columns = _columns(self.sample)
        self.rest = REST
        while self.rest in self.columns:
            self.rest += "_"

    def __iter__(self) -> Iterator[tuple[list[Any], dict[str, Any]]]:
        """Yield for each record its values, None where it has none, and the values of no column."""
        return self._rows(self._flats())

    def rows(
        self, records: Iterable[Mapping[str, Any]]
    ) -> Iterator[tuple[list[Any], dict[str, Any]]]:
        """Yield further records, which follow those of the table, in the same way."""
        return self._rows(map(_flat, records))

    def _rows(self, flats: Iterable[Flat]) -> Iterator[tuple[list[Any], dict[str, Any]]]:
        known = frozenset(self.columns)
        for flat in flats:
            rest = (
                {}
                if flat.keys() <= known
                else {
                    name: value
                    for name, value in flat.items()
                    if name not in known and value is not None
                }
            )
            yield [flat.get(name) for name in self.columns], rest

    def _flats(self) -> Iterator[Flat]:
        while self.sample:
            yield self.sample.popleft()
        yield from self._following


def _flat(record: Mapping[str, Any]) -> Flat:
    flat: dict[str, Any] = {}
    for name, value in record.items():
        if type(value) not in _SINGLE and isinstance(value, Mapping):
            flat.update((f"{name}.{inner}", content) for inner, content in value.items())
        else:
            flat[name] = value
    return flat


def _columns(sample: Iterable[Flat]) -> list[str]:
    groups: dict[str, dict[str, bool]] = {}  # by object: its names, and whether any has a value
    for flat in sample:
        for name, value in flat.items():
            group = groups.setdefault(name.partition(".")[0], {})
            group[name] = group.get(name, False) or value is not None
    return [
        name
        for outer, group in groups.items()
        for name, filled in group.items()
        if filled or name != outer or len(group) == 1  # an object that some records lack
    ]


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
                raise UsageError(f"columns {text!r:.200}: each must read NAME or NEW=NAME")
            if new in sources:
                raise UsageError(f"the column {new!r:.80} occurs twice: give one a new name")
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
