"""Write result records to JSON, CSV, Parquet and SDF files, in bounded memory."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias

from taskq.files.destination import opened
from taskq.model.errors import UsageError
from taskq.model.words import as_json, as_text
from taskq.results import parquet
from taskq.results.sdf import as_sdf
from taskq.results.tabular import Table

Record: TypeAlias = Mapping[str, Any]

_NUMBER: Final = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")
# Other programs also know the wide forms of the four signs.
_FORMULA: Final = re.compile(
    "^(?=[\t\r\n])|(?:^|(?<=[;\t\r\n]))(?=[ \u00a0]*[-=+@\uff1d\uff0b\uff0d\uff20])"
)

_SUFFIXES: Final = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".sdf": "sdf",
}


def write(
    records: Iterable[Record],
    destination: str | Path | BinaryIO,
    format: str,  # noqa: A002  # the name that the command line uses
    *,
    columns: Sequence[str] | None = None,
    spreadsheet: bool = False,
) -> int:
    """Write records as `jsonl`, `json` (an array), `csv`, `parquet` or `sdf`; return how many.

    A path gets a complete file or none (see `files.destination`); a stream stays open, and if its
    reader goes away, writing ends without an error.

    Instants are ISO 8601 in UTC, durations seconds.

    In CSV and Parquet an object, such as payload and result, has a column for each of its names
    (`payload.smiles`); deeper values are JSON text. The first 1,000 records, or 64 MiB of them,
    decide the columns and, in Parquet, their types. There are at most 1,000 columns, those that
    most of these records have (see `tabular.Names`). A last column `rest` takes, as JSON text, the
    values that have no column, so that nothing is lost; it is missing if there can be none.

    For SDF each record has its molecule in `molblock`; see `poses`. Its other fields become data
    fields, and deeper ones JSON text.

    columns: the columns of CSV, if they are known: each record is written as it comes.

    CSV is UTF-8 and follows RFC 4180, but lines end in LF. Values are written as they are, also
    text that starts with `=`, which a spreadsheet takes for a formula. spreadsheet: write an
    apostrophe before each such text, so that it stays text; see `marked`. Only for CSV.

    Raise `UsageError` for an unknown format, and for Parquet without pyarrow; then nothing is
    read or written.
    """
    writer = _WRITERS.get(format)
    if writer is None:
        raise UsageError(f"unknown export format {format!r}; known are: {', '.join(FORMATS)}")
    if spreadsheet and format != "csv":
        raise UsageError(f"only CSV is marked for spreadsheets, not {format}")
    if writer is _write_parquet:
        parquet.require_pyarrow()
    counted = _Counted(records)
    with opened(destination) as stream:
        if writer is _write_csv:
            _write_csv(counted, stream, columns, marked if spreadsheet else str)
        else:
            writer(counted, stream)
    return counted.count


def marked(cell: str) -> str:
    """Return a cell that a spreadsheet takes for text, with apostrophes where it needs them.

    One goes before what begins as a formula: `=`, `+`, `-` or `@`, a tab or a line end. Some
    spreadsheets split a cell at semicolons, tabs and line ends, so what follows these counts as a
    beginning too. A number is no formula.
    """
    return cell if _NUMBER.fullmatch(cell) else _FORMULA.sub("'", cell)


class _Counted:
    def __init__(self, records: Iterable[Record]) -> None:
        self.count = 0
        self._records = records

    def __iter__(self) -> Iterator[Record]:
        for record in self._records:
            yield record
            self.count += 1


def _write_jsonl(records: Iterable[Record], stream: BinaryIO) -> None:
    stream.writelines(f"{as_json(record)}\n".encode() for record in records)


def _write_json(records: Iterable[Record], stream: BinaryIO) -> None:
    between = "[\n"
    for record in records:
        stream.write(f"{between}{as_json(record)}".encode())
        between = ",\n"
    stream.write(b"[]\n" if between == "[\n" else b"\n]\n")


def _write_csv(
    records: Iterable[Record],
    stream: BinaryIO,
    columns: Sequence[str] | None = None,
    form: Callable[[str], str] = str,
) -> None:
    rows = _CsvRows(stream, form)
    if columns is not None:
        rows.write(list(columns))
        for record in records:
            rows.write([as_text(record.get(name)) for name in columns])
        return
    table = Table(records)
    if not table.columns:
        return
    rows.write(table.columns if table.rest is None else [*table.columns, table.rest])
    for values, rest in table:
        row = [as_text(value) for value in values]
        if table.rest is not None:
            row.append(as_json(rest) if rest else "")
        rows.write(row)


class _CsvRows:
    def __init__(self, stream: BinaryIO, form: Callable[[str], str]) -> None:
        lines = _Utf8(stream)
        self._form = form
        self._writer = csv.writer(lines, lineterminator="\n")
        self._quoting = csv.writer(lines, lineterminator="\n", quoting=csv.QUOTE_ALL)

    def write(self, row: list[str]) -> None:
        # Before Python 3.13, csv leaves a lone CR unquoted, and readers take it for a line end.
        quoting = any("\r" in cell for cell in row)
        (self._quoting if quoting else self._writer).writerow(map(self._form, row))


class _Utf8:
    """A binary stream as csv.writer needs it; unlike TextIOWrapper it never closes the stream."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        self._stream.write(text.encode())


def _write_parquet(records: Iterable[Record], stream: BinaryIO) -> None:
    parquet.write_table(Table(records), stream)


def _write_sdf(records: Iterable[Record], stream: BinaryIO) -> None:
    stream.writelines(as_sdf(records))


_WRITERS: Final[dict[str, Callable[[Iterable[Record], BinaryIO], None]]] = {
    "jsonl": _write_jsonl,
    "json": _write_json,
    "csv": _write_csv,
    "parquet": _write_parquet,
    "sdf": _write_sdf,
}
FORMATS: Final = tuple(_WRITERS)


def format_of(path: str | Path) -> str:
    """Return the format that a file's suffix names, `jsonl` for a path without one.

    Raise `UsageError` for any other suffix, which would not match the content.
    """
    suffix = Path(path).suffix.lower()
    if (known := suffix_format(path)) is not None or not suffix:
        return known or "jsonl"
    raise UsageError(
        f"{str(path)!r}: no format has the suffix {suffix}; use one of {', '.join(_SUFFIXES)}, or "
        f"name the format: {', '.join(FORMATS)}"
    )


def suffix_format(path: str | Path) -> str | None:
    """Return the format that a file's suffix names; None if it names none."""
    return _SUFFIXES.get(Path(path).suffix.lower())
