"""Records as rows of a table: columns chosen by name, or taken from a sample of the records."""

from __future__ import annotations

import csv
import pickle
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import NoneType
from typing import Any, Final, TypeAlias
from unicodedata import category

from taskq.model.errors import UsageError
from taskq.model.words import as_json
from taskq.results.ranking import dotted

MAX_COLUMNS: Final = 1_000
MAX_NAME_CHARS: Final = 200
SAMPLE_RECORDS: Final = 1_000
MAX_SAMPLE_BYTES: Final = 67_108_864
REST: Final = "rest"  # the column for values without a column

#: Of the sample, what is kept as it is; more is kept as bytes, which take a tenth of the memory.
_UNPACKED_BYTES: Final = 16_777_216
#: Names that are counted at a time; an agent may send others with each result.
_COUNTED_NAMES: Final = 100 * MAX_COLUMNS
#: Kinds of characters that no name of a column has: controls, formats, line ends.
_UNFIT: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
#: Types of most values, which are not mappings: `isinstance` takes long for any other type.
_SINGLE: Final = frozenset({str, int, float, bool, NoneType})

Flat: TypeAlias = Mapping[str, Any]


class Names:
    """Counts of the names in records, and the choice of those that become columns.

    Agents choose the names in results, so not all of them can be columns. The names of the record
    itself are: those in `own`, or without it those without a point. Of the others, the ones that
    most records have, 1,000 columns in all. Names that are empty, longer than 200 characters or not
    printable are none. Of names that differ in case alone, which other programs take for one, those
    are none that less than half as many records have.
    """

    def __init__(self, own: Collection[str] | None = None) -> None:
        self.counts: dict[str, int] = {}
        self._own = own
        self._filled: set[str] = set()  # names with a value other than None
        self._is_cut = False

    def note(self, flat: Flat) -> None:
        """Count the names of a record; of more than 1,000 that are not its own, the first."""
        room = MAX_COLUMNS
        for name, value in flat.items():
            if not self._is_own(name):
                if not room:
                    self._is_cut = True
                    continue
                room -= 1
            self.counts[name] = self.counts.get(name, 0) + 1
            if value is not None:
                self._filled.add(name)
        if len(self.counts) > _COUNTED_NAMES:
            kept = {*sorted(self.counts, key=self._rank)[: _COUNTED_NAMES // 2]}
            self.counts = {name: count for name, count in self.counts.items() if name in kept}
            self._filled &= kept
            self._is_cut = True

    def chosen(self) -> tuple[list[str], bool]:
        """Return the columns, and whether they lack a name that has a value.

        Columns are in the order of their first appearance, those of one object side by side.
        """
        groups: dict[str, list[str]] = {}  # by object
        for name in self.counts:
            groups.setdefault(name.partition(".")[0], []).append(name)
        named = [
            name
            for outer, group in groups.items()
            for name in group
            # An object that some records lack is no column.
            if name in self._filled or name != outer or len(group) == 1
        ]
        best = {*self._best(named)}
        columns = [column for column in named if column in best]
        return columns, self._is_cut or not self._filled <= best

    def _best(self, names: Iterable[str]) -> list[str]:
        found: list[str] = []
        folded: dict[str, int] = {}
        for name in sorted(names, key=self._rank):
            if len(found) == MAX_COLUMNS:
                break
            most = folded.setdefault(name.casefold(), self.counts[name])
            if self._is_own(name) or (2 * self.counts[name] >= most and _is_fit(name)):
                found.append(name)
        return found

    def _is_own(self, name: str) -> bool:
        return "." not in name if self._own is None else name in self._own

    def _rank(self, name: str) -> tuple[bool, int]:
        return not self._is_own(name), -self.counts[name]


def rest_name(columns: Collection[str]) -> str:
    """Return the name of the column for the rest: it ends in `_` if the name is taken."""
    return _free(REST, {column.casefold() for column in columns})


def _is_fit(name: str) -> bool:
    return (
        len(name) <= MAX_NAME_CHARS
        and name.rpartition(".")[2].strip() != ""
        and (name.isprintable() or all(category(char) not in _UNFIT for char in name))
    )


class Table:
    """Records as rows, read once; the first ones decide the columns.

    An object within a record has a column for each of its names, such as `payload.smiles`; deeper
    values stay whole. `Names` says which names are columns. Reading the rows empties the sample.

    own       the names of the record itself, if they are not those without a point
    names     the names in the deciding records: the first 1,000 and one that shows that there are
              more, or fewer if they reach 64 MiB
    columns   the names of the columns
    complete  whether the deciding records are all
    rest      the name of the column for values without one; None if there are none
    """

    def __init__(
        self, records: Iterable[Mapping[str, Any]], *, own: Collection[str] | None = None
    ) -> None:
        self.complete = True
        self.names = Names(own)
        self._sample: deque[Flat | bytes] = deque()
        self._following = map(_flat, records)
        size = 0
        for flat in self._following:
            self.names.note(flat)
            size += len(as_json(flat))
            self._sample.append(flat if size <= _UNPACKED_BYTES else pickle.dumps(flat))
            if len(self._sample) > SAMPLE_RECORDS or size > MAX_SAMPLE_BYTES:
                self.complete = False
                break
        self.columns, lacks = self.names.chosen()
        self.rest = rest_name(self.columns) if lacks or not self.complete else None

    def __iter__(self) -> Iterator[tuple[list[Any], dict[str, Any]]]:
        """Yield for each record its values, None where it has none, and the values of no column."""
        return self._rows(self._flats())

    def sample(self) -> Iterator[Flat]:
        """Yield the deciding records that are not read yet, flat; they stay."""
        return map(_unpacked, self._sample)

    def rows(
        self, records: Iterable[Mapping[str, Any]]
    ) -> Iterator[tuple[list[Any], dict[str, Any]]]:
        """Yield further records, which follow those of the table, in the same way."""
        return self._rows(map(_flat, records))

    def _rows(self, flats: Iterable[Flat]) -> Iterator[tuple[list[Any], dict[str, Any]]]:
        known = frozenset(self.columns)
        for flat in flats:
            rest = {} if flat.keys() <= known else without(flat, known)
            yield [flat.get(name) for name in self.columns], rest

    def _flats(self) -> Iterator[Flat]:
        while self._sample:
            yield _unpacked(self._sample.popleft())
        yield from self._following


def without(flat: Flat, columns: Collection[str]) -> dict[str, Any]:
    """Return the values of a record that have no column."""
    return {
        name: value for name, value in flat.items() if name not in columns and value is not None
    }


def _unpacked(kept: Flat | bytes) -> Flat:
    if not isinstance(kept, bytes):
        return kept
    flat: Flat = pickle.loads(kept)  # noqa: S301  # pickled above
    return flat


def _flat(record: Mapping[str, Any]) -> Flat:
    flat: dict[str, Any] = {}
    for name, value in record.items():
        if type(value) not in _SINGLE and isinstance(value, Mapping):
            for key, content in value.items():
                inner = f"{name}.{key}"
                flat[inner if inner not in flat else _free(inner, flat)] = content
        else:
            flat[name if name not in flat else _free(name, flat)] = value
    return flat


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name


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
