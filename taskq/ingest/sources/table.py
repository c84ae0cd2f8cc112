"""CSV and TSV files: a header row that names the columns, then a task per row."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from taskq.ingest.sources.columns import NumberColumns, SingleNumbers, names_of, number
from taskq.ingest.sources.lines import LineReader
from taskq.ingest.sources.records import (
    BadLine,
    Record,
    SourceOptions,
    excerpt,
    key_fields,
    number_or_text,
    same_number_or_text,
    seed_from,
)
from taskq.ingest.sources.smiles import is_structure
from taskq.model.errors import InvalidTask, UsageError
from taskq.model.seed import MAX_PAYLOAD_BYTES

if TYPE_CHECKING:
    from _csv import Reader  # the type has no public name

#: A line that spreadsheets write before the header.
_SEPARATOR_LINE: Final = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
_QUOTED: Final = re.compile(r'"[^"]*"?')
_MARKS: Final = ",;\t|"
_QUOTED_TITLE: Final = re.compile(r'"[^"]*"')

#: Makes the payload of a row, of its values as a list and by name.
_Payloads: TypeAlias = Callable[[list[str], dict[str, str]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ColumnSurvey:
    """What is known of all rows of a table before the first is a task.

    numbers: the places of the columns of numbers. row_names: whether each row has one value more
    than the header has names, as R writes the names of rows.
    """

    numbers: frozenset[int] = frozenset()
    row_names: bool = False


def read_csv(
    lines: LineReader, options: SourceOptions, survey: ColumnSurvey | None = None
) -> Iterator[Record]:
    """Yield a task per row of a CSV file (RFC 4180): a payload of column names and values.

    The delimiter is that of the options, that of a line `sep=;` before the header, or the first of
    comma, semicolon, tab and `|` that is in the header. Empty rows, and rows of empty cells, are
    skipped. A column without a name is `columnN`, and in a payload only with a value; a name that
    comes again gets a number. Raise `UsageError` if the header lacks the key or priority column, or
    is a row with a molecule.

    survey: what `survey_csv` found in the same file; None if that can be read only once: then each
    value is a number or text by itself.
    """
    return _Table(lines, options).records(survey)


def read_tsv(
    lines: LineReader, options: SourceOptions, survey: ColumnSurvey | None = None
) -> Iterator[Record]:
    """Yield a task per row of a TSV file, like `read_csv`; quotes are ordinary characters.

    The registration of text/tab-separated-values defines it so. If all titles of the header are in
    quotes, quotes are as in CSV. Read another file with quoted tabs as CSV with the delimiter tab.
    """
    return _Table(lines, options, tabs=True).records(survey)


def survey_csv(lines: LineReader, options: SourceOptions) -> ColumnSurvey:
    """Look through a CSV file; raise what reading it raises."""
    return _Table(lines, options).survey()


def survey_tsv(lines: LineReader, options: SourceOptions) -> ColumnSurvey:
    """Look through a TSV file; raise what reading it raises."""
    return _Table(lines, options, tabs=True).survey()


class _Table:
    """A table: its header, and then its rows."""

    def __init__(self, lines: LineReader, options: SourceOptions, *, tabs: bool = False) -> None:
        self._feed = _Feed(lines)
        self._options = options
        self._notes = lines.notes
        self._tabs = tabs
        self._name = lines.name
        self._titles: list[str] = []  # as in the header, without white space around
        self._names: list[str] = []

    def survey(self) -> ColumnSurvey:
        """Look through all rows, if there is something to find."""
        rows = self._begin()
        first = next((row for row in rows if isinstance(row, list)), None)
        width = len(self._titles)
        row_names = first is not None and len(first) == width + 1 and bool(first[-1].strip())
        if first is None or not (row_names or self._options.types == "guess"):
            return ColumnSurvey()
        usual = NumberColumns(self._names, self._notes)
        shifted = NumberColumns(names_of(["", *self._titles]), self._notes)
        for row in chain([first], rows):
            if isinstance(row, BadLine):
                continue
            fit = row if len(row) == width else self._fit(row)
            if row_names:
                row_names = len(row) == width + 1
                if row_names:
                    shifted.see(row, self._feed.number)
            if fit is not None:
                usual.see(fit, self._feed.number)
            if not (row_names or usual.left):
                break
        return ColumnSurvey((shifted if row_names else usual).found(), row_names)

    def records(self, survey: ColumnSurvey | None) -> Iterator[Record]:
        """Yield a record per row."""
        rows = self._begin(row_names=survey is not None and survey.row_names)
        payload_of = self._payloads(survey)
        unnamed = [] if self._titles == self._names else self._unnamed()
        for row in rows:
            if isinstance(row, BadLine):
                yield row
                continue
            fit = row if len(row) == len(self._names) else self._fit(row)
            if fit is None:
                reason = f"the row has {len(row)} values, the header {len(self._names)} names"
                yield self._feed.bad(reason)
                continue
            cells = dict(zip(self._names, fit, strict=True))
            payload = payload_of(fit, cells)
            for name in unnamed:
                if not cells[name].strip():
                    del payload[name]
                else:
                    self._notes.add(
                        self._feed.start, f"a column has no name in the header: it is {name!r}"
                    )
            try:
                yield seed_from(payload, cells, self._options)
            except InvalidTask as error:
                yield self._feed.bad(str(error))

    def _payloads(self, survey: ColumnSurvey | None) -> _Payloads:
        """Return the function that makes payloads of rows."""
        keys = key_fields(self._options.key)
        names = [(place, name) for place, name in enumerate(self._names) if name not in keys]
        types = self._options.types
        if types == "number":
            return lambda fit, cells: cells | {name: number_or_text(fit[i]) for i, name in names}
        numbers = [(i, name) for i, name in names if survey is not None and i in survey.numbers]

        def typed(fit: list[str], cells: dict[str, str]) -> dict[str, Any]:
            # The survey has not seen the lines of bad rows that are read again.
            value = same_number_or_text if self._feed.reread else number
            payload: dict[str, Any] = cells.copy()
            for place, name in numbers:
                payload[name] = value(fit[place])
            return payload

        if types == "text" or (survey is not None and not numbers):
            return lambda _, cells: cells
        if survey is not None:
            return typed
        single = SingleNumbers(self._names, self._notes)
        start = self._feed
        return lambda fit, cells: (
            cells | {name: single.value(i, fit[i], start.start) for i, name in names}
        )

    def _unnamed(self) -> list[str]:
        return [
            name
            for title, name in zip(self._titles, self._names, strict=True)
            if not title and self._options.header is not False
        ]

    def _fit(self, row: list[str]) -> list[str] | None:
        """Return a row with a value for each column, or None.

        Empty values may be too many, and those of columns without a name may be missing.
        """
        width = len(self._names)
        if len(row) < width and not any(self._titles[len(row) :]):
            return row + [""] * (width - len(row))
        return None if any(map(str.strip, row[width:])) or len(row) < width else row[:width]

    def _begin(self, *, row_names: bool = False) -> Iterator[list[str] | BadLine]:
        """Read the header, and return the rows; raise `UsageError` if nothing can be read."""
        reader = self._reader()
        rows = self._feed.rows(reader)
        header = next(rows, None)
        if header is None:
            return rows
        if isinstance(header, BadLine):
            raise UsageError(f"{self._name}: the header in line {header.number}: {header.reason}")
        if self._options.header is False:
            self._titles = [""] * len(header)
            rows = chain([header], rows)
        else:
            self._titles = [""] * row_names + [title.strip() for title in header]
            self._check_titles()
        self._names = names_of(self._titles)
        self._note_numbered()
        keys = [("key", name) for name in key_fields(self._options.key)]
        for role, column in (*keys, ("priority", self._options.priority)):
            if column is not None and column not in self._names:
                raise UsageError(
                    f"{self._name} has no column {column!r} to take the {role} from; "
                    f"its columns are: {', '.join(self._names)}; name one by --{role}-field"
                )
        return rows

    def _check_titles(self) -> None:
        """Raise `UsageError` if the first row has a molecule, and so no titles."""
        molecule = next(filter(is_structure, self._titles), None)
        if self._options.header is None and molecule is not None:
            raise UsageError(
                f"{self._name}: the first row has {excerpt(molecule)!r}, which looks like a "
                "molecule: `--no-header` reads a file without titles, `--header` this one with them"
            )

    def _note_numbered(self) -> None:
        for title, name in zip(self._titles, self._names, strict=True):
            if title and title != name:
                self._notes.add(
                    self._feed.start, f"the column {excerpt(title)!r} is repeated: this is {name!r}"
                )

    def _reader(self) -> Reader:
        """Return a reader for the delimiter and the quotes of the file."""
        first = self._feed.peek()
        if self._tabs:
            plain = _QUOTED.sub("", first)
            if "\t" not in first and any(mark in plain for mark in _MARKS):
                raise UsageError(
                    f"{self._name}: the header {excerpt(first)!r} has no tab: `--format csv` reads "
                    "other delimiters"
                )
            quoted = all(_QUOTED_TITLE.fullmatch(title) for title in first.split("\t"))
            return csv.reader(
                self._feed,
                strict=True,
                delimiter="\t",
                quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
            )
        separator = _SEPARATOR_LINE.fullmatch(first.strip())
        if separator is not None:
            self._feed.skip()
            first = self._feed.peek()
        plain = _QUOTED.sub("", first)
        found = next((mark for mark in _MARKS if mark in plain), ",")
        delimiter = self._options.separator(found if separator is None else separator[1])
        return csv.reader(self._feed, strict=True, delimiter=delimiter)


class _Feed:
    """The lines for a csv reader, which notes where a row starts and how long it grows.

    A faulty row over several lines has most likely an open quote in its first line, and so has
    swallowed whole rows. So only its first line is bad, and the others are read again.
    """

    def __init__(self, lines: LineReader) -> None:
        self.name = lines.name
        self._row: list[str | BadLine] = []  # the lines of the current row
        self._again: deque[str | BadLine] = deque()  # lines to read again
        self.number = 0  # of the last line of the current row
        self._size = 0
        self.reread = False  # whether lines of a bad row are, or were, read again
        self._iterator = iter(lines)

    @property
    def start(self) -> int:
        """Return the number of the first line of the current row."""
        return self.number - len(self._row) + 1

    @property
    def text(self) -> str:
        """Return the first line of the current row."""
        first = self._row[0] if self._row else ""
        return first if isinstance(first, str) else first.text

    def peek(self) -> str:
        """Return the first line that is not empty, which stays the next; empty at the end."""
        for line in chain([*self._again], self._iterator):
            if not self._again:
                self._again.append(line)
            if isinstance(line, BadLine):
                return ""
            if line.strip():
                return line
            self.skip()
        return ""

    def skip(self) -> None:
        """Leave out the next line, which was seen."""
        self._again.popleft()
        self.number += 1

    def rows(self, reader: Reader) -> Iterator[list[str] | BadLine]:
        """Yield the rows that are not empty, and faults as bad lines."""
        while True:
            self._size = 0
            self._row.clear()
            try:
                row = next(reader, None)
            except _Interrupted as interruption:
                is_one_line = len(self._row) == 1
                yield (
                    interruption.bad_line if is_one_line else self.bad(interruption.bad_line.reason)
                )
            except csv.Error as error:
                yield self.bad(self._reason(str(error)))
            else:
                if row is None:
                    return
                if row and (row[0].strip() or any(map(str.strip, row))):
                    yield row

    def bad(self, reason: str) -> BadLine:
        """Return the fault of a row as a bad first line; make the other lines read again."""
        start, last, text = self.start, self.number, self.text
        if last > start:
            reason = f"a quote is left open, or the row up to line {last} is wrong: {reason}"
            self.reread = True
            self._again.extendleft(reversed(self._row[1:]))
            self.number = start
            del self._row[1:]
        return BadLine(start, reason, excerpt(text))

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else next(self._iterator)
        self.number += 1
        self._row.append(line)
        if isinstance(line, BadLine):
            raise _Interrupted(line)
        self._size += len(line) + 1
        if self._size > MAX_PAYLOAD_BYTES and len(self._row) > 1:
            raise csv.Error(f"it is longer than {MAX_PAYLOAD_BYTES} characters, so no task")
        return line + "\n"

    def _reason(self, message: str) -> str:
        """Return what an error of the csv module means."""
        if message == "unexpected end of data":
            return "the file ends within a quoted value of the row that starts here"
        if "expected after" in message:
            return (
                "a quote ends within a value: double the quotes in quoted values, or name another "
                "`--delimiter`"
            )
        if "new-line character" in message:
            return "a carriage return within a value without quotes: convert line ends to LF"
        if "field limit" in message:
            return f"a value is longer than {csv.field_size_limit()} characters"
        return message


class _Interrupted(Exception):  # carries a bad line past csv
    def __init__(self, bad_line: BadLine) -> None:
        super().__init__(bad_line.reason)
        self.bad_line = bad_line
