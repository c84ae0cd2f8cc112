"""CSV and TSV files: a header row that names the columns, then a task per row."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from taskq.ingest.sources.lines import LineReader
from taskq.ingest.sources.records import (
    BadLine,
    Record,
    SourceOptions,
    excerpt,
    key_fields,
    number_or_text,
    seed_from,
)
from taskq.model.errors import InvalidTask, UsageError
from taskq.model.seed import MAX_PAYLOAD_BYTES

if TYPE_CHECKING:
    from _csv import Reader  # the type has no public name


def read_csv(lines: LineReader, options: SourceOptions) -> Iterator[Record]:
    """Yield a task per row of a CSV file (RFC 4180): a payload of column names and values.

    Empty rows, and rows of empty cells, are skipped. Raise `UsageError` if the header names a
    column twice or not at all, or lacks the key or priority column.
    """
    feed = _Feed(lines)
    separator = options.separator(",")
    yield from _read(feed, csv.reader(feed, strict=True, delimiter=separator), options)


def read_tsv(lines: LineReader, options: SourceOptions) -> Iterator[Record]:
    """Yield a task per row of a TSV file, like `read_csv`; quotes are ordinary characters.

    The registration of text/tab-separated-values defines it so. Read a file with quoted tabs as CSV
    with the delimiter tab.
    """
    feed = _Feed(lines)
    reader = csv.reader(feed, strict=True, delimiter="\t", quoting=csv.QUOTE_NONE)
    yield from _read(feed, reader, options)


def _read(feed: _Feed, reader: Reader, options: SourceOptions) -> Iterator[Record]:
    header: list[str] | None = None
    while (row := feed.next_row(reader)) is not None:
        if isinstance(row, BadLine):
            if header is None:
                raise UsageError(f"{feed.name}: the header in line {row.number}: {row.reason}")
            yield row
        elif not any(map(str.strip, row)):
            continue
        elif header is None:
            header = _header(feed.name, row, options)
        else:
            yield _record(feed, header, row, options)


def _header(name: str, row: list[str], options: SourceOptions) -> list[str]:
    header = [title.strip() for title in row]
    if len(header) == 1 and any(mark in header[0] for mark in ";\t|"):
        raise UsageError(
            f"{name}: the header {header[0]!r} has no comma: choose the delimiter of the file "
            "(`taskq seed --delimiter`)"
        )
    if "" in header:
        raise UsageError(f"{name}: column {header.index('') + 1} has no name in the header row")
    for title in header:
        if header.count(title) > 1:
            raise UsageError(f"{name}: the header row names the column {title!r} twice")
    keys = [("key", name) for name in key_fields(options.key)]
    for role, column in (*keys, ("priority", options.priority)):
        if column is not None and column not in header:
            raise UsageError(
                f"{name} has no column {column!r} to take the {role} from; "
                f"its columns are: {', '.join(header)}; name one by --{role}-field"
            )
    return header


def _record(feed: _Feed, header: list[str], row: list[str], options: SourceOptions) -> Record:
    if len(row) != len(header):
        return feed.bad(f"the row has {len(row)} values, the header {len(header)} names")
    cells = dict(zip(header, row, strict=True))
    payload: dict[str, Any] = cells
    if options.types == "guess":
        keys = key_fields(options.key)
        payload = {
            title: cell if title in keys else number_or_text(cell) for title, cell in cells.items()
        }
    try:
        return seed_from(payload, cells, options)
    except InvalidTask as error:
        return feed.bad(str(error))


class _Feed:
    """The lines for a csv reader, which notes where a row starts and how long it grows.

    A faulty row over several lines has most likely an open quote in its first line, and so has
    swallowed whole rows. So only its first line is bad, and the others are read again.
    """

    def __init__(self, lines: LineReader) -> None:
        self.name = lines.name
        self._row: list[str | BadLine] = []  # the lines of the current row
        self._again: deque[str | BadLine] = deque()  # lines to read again
        self._number = 0  # of the last line of the current row
        self._size = 0
        self._iterator = iter(lines)

    @property
    def start(self) -> int:
        """Return the number of the first line of the current row."""
        return self._number - len(self._row) + 1

    @property
    def text(self) -> str:
        """Return the first line of the current row."""
        first = self._row[0] if self._row else ""
        return first if isinstance(first, str) else first.text

    def next_row(self, reader: Reader) -> list[str] | BadLine | None:
        """Return the next row, or its fault as a bad line, or None at the end."""
        self._size = 0
        self._row.clear()
        try:
            return next(reader, None)
        except _Interrupted as interruption:
            if len(self._row) == 1:
                return interruption.bad_line
            return self.bad(interruption.bad_line.reason)
        except csv.Error as error:
            return self.bad(self._reason(str(error)))

    def bad(self, reason: str) -> BadLine:
        """Return the fault of a row as a bad first line; make the other lines read again."""
        start, last, text = self.start, self._number, self.text
        if last > start:
            reason = f"a quote is left open, or the row up to line {last} is wrong: {reason}"
            self._again.extendleft(reversed(self._row[1:]))
            self._number = start
            del self._row[1:]
        return BadLine(start, reason, excerpt(text))

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else next(self._iterator)
        self._number += 1
        self._row.append(line)
        if isinstance(line, BadLine):
            raise _Interrupted(line)
        self._size += len(line) + 1
        if self._size > MAX_PAYLOAD_BYTES and len(self._row) > 1:
            raise csv.Error(f"it is longer than {MAX_PAYLOAD_BYTES} characters, so no task")
        return line + "\n"

    def _reason(self, message: str) -> str:
        if message == "unexpected end of data":
            return "the file ends within a quoted value of the row that starts here"
        return message


class _Interrupted(Exception):  # carries a bad line past csv
    def __init__(self, bad_line: BadLine) -> None:
        super().__init__(bad_line.reason)
        self.bad_line = bad_line
