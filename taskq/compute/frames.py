"""Results of a run as plain rows: for pandas, and as Arrow record batches, a page at a time.

Making Python values of a result takes ten times as long as PostgreSQL takes to send it. Most
results hold only text, numbers and truth values, which Arrow reads as they are stored.
"""

from __future__ import annotations

import importlib
import io
import math
import warnings
from array import array
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from decimal import Decimal
from itertools import chain, compress
from types import NoneType
from typing import Any, Final

from taskq.db.access import PAGE, Queries
from taskq.db.rows import Row
from taskq.model.errors import ExtraMissing, NotOverGateway
from taskq.model.run_times import ran_s
from taskq.model.views import Result
from taskq.model.words import as_json
from taskq.results.parquet import ArrowColumns, grouped
from taskq.results.tabular import REST, SAMPLE_RECORDS, Names, Table, rest_name, without
from taskq_agent import typed

_AS_IS: Final = frozenset({str, int, bool, NoneType})
BATCH_ROWS: Final = 10_000
#: Columns that are not fields of argument or result; the text of a page has the same names.
_OWN: Final = ("key", "attempt", "host", "seconds")
_PLAIN: Final = frozenset({str, int, float, bool, NoneType})
_EXACT_IN_DOUBLE: Final = 2**53
#: Pages in a row that are not plain, after which Arrow is no longer tried.
_MOST_MISSES: Final = 3


class ResultPages:
    """The results of a run, in the order of seeding.

    mine: which of the tasks of a page are of the run. rows_of: makes the rows of a result, which is
    one unless it is a chunk's, from its database row. at_end: called once there are no more.
    """

    def __init__(
        self,
        database: Queries,
        campaign: int,
        mine: Callable[[array[int]], list[bool]],
        rows_of: Callable[[Row], Iterator[dict[str, Any]]],
        at_end: Callable[[], None],
    ) -> None:
        self._database = database
        self._campaign = campaign
        self._mine = mine
        self._rows_of = rows_of
        self._at_end = at_end
        self._after = 0
        self._fields = _Fields()
        self._misses = 0
        # The page of lines after this task, as soon as it is read.
        self._ahead: tuple[int, Future[Row | None]] | None = None

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield all remaining rows."""
        while (page := self._page()) is not None:
            yield from self._made(page)

    def head(self) -> Iterator[dict[str, Any]]:
        """Yield the first pages: rows that decide the columns, and one more if there are more."""
        seen = 0
        while seen <= SAMPLE_RECORDS and (page := self._page()) is not None:
            seen += len(page)
            self._fields.note(page)
            yield from self._made(page)

    def parsed(self, schema: Any, reader: ThreadPoolExecutor) -> Any:
        """Return the next page after the head: an Arrow table, or a chain of rows; None at the end.

        Meanwhile `reader` asks for the page after that. The page is a table of this schema if each
        row has only fields of the head, with plain values of their types. Then it holds what
        `rows_of` would make of the rows.
        """
        after = self._after
        if self._misses < _MOST_MISSES and self._fields.are_plain:
            try:
                lines = self._lines(reader)
            except NotOverGateway:
                self._misses = _MOST_MISSES
            else:
                if lines is None:
                    return None
                if (table := self._fields.table(lines, schema, self._mine)) is not None:
                    self._misses = 0
                    return table
                self._misses += 1
        self._after = after
        page = self._page()
        return None if page is None else self._made(page)

    def _made(self, page: list[Row]) -> Iterator[dict[str, Any]]:
        return chain.from_iterable(map(self._rows_of, page))

    def _page(self) -> list[Row] | None:
        values = {"campaign": self._campaign, "after": self._after, "limit": PAGE}
        page = self._database.rows("results", **values)
        if not page:
            self._at_end()
            return None
        self._after = page[-1]["task_id"]
        mine = self._mine(array("q", [row["task_id"] for row in page]))
        return [*compress(page, mine)]

    def _lines(self, reader: ThreadPoolExecutor) -> str | None:
        """Return the lines of the next page; have the reader ask for the page after it."""
        if self._ahead is not None and self._ahead[0] == self._after:
            page = self._ahead[1].result()
        else:
            page = self._text_after(self._after)
        if page is None:
            self._at_end()
            return None
        self._after = page["last"]
        self._ahead = self._after, reader.submit(self._text_after, self._after)
        return str(page["lines"])

    def _text_after(self, task: int) -> Row | None:
        values = {"campaign": self._campaign, "after": task, "limit": PAGE}
        return self._database.row("results_text", **values)


class _Fields:
    """The fields of payloads and results. are_plain: whether each stored field is a column."""

    def __init__(self) -> None:
        self.are_plain = True
        self._names: dict[str, dict[str, None]] = {"payload": {}, "result": {}}

    def note(self, page: list[Row]) -> None:
        """Note the fields of rows of the head."""
        for row in page:
            for part, names in self._names.items():
                fields = row[part] or {}
                names.update(dict.fromkeys(fields))
                self.are_plain &= _PLAIN.issuperset(map(type, fields.values()))
        columns = [*_OWN, *(name for names in self._names.values() for name in names)]
        self.are_plain &= (
            len(columns) == len(set(columns))  # else the name of one depends on the others
            and all(name and name[0] != "$" and "." not in name for name in columns)
            and not {"args", REST} & {*columns}
        )

    def table(self, lines: str, schema: Any, mine: Callable[[array[int]], list[bool]]) -> Any:
        """Return the rows of these lines; None if not all are as plain as the head."""
        pa, json = map(importlib.import_module, ("pyarrow", "pyarrow.json"))
        types = {field.name: field.type for field in schema}
        parts = [(name, types[name]) for name in _OWN]
        for part, names in self._names.items():
            known = [(name, types[name]) for name in names if name in types]
            parts.append((part, pa.struct(known)))
        data = lines.encode()
        try:
            read = json.read_json(
                io.BytesIO(data),
                json.ReadOptions(use_threads=False, block_size=len(data) + 1),
                json.ParseOptions(
                    explicit_schema=pa.schema([("task", pa.int64()), *parts]),
                    unexpected_field_behavior="error",
                ),
            )
        except pa.ArrowInvalid:
            return None
        columns = {name: read[name] for name in _OWN}
        for part in self._names:
            fields = read.schema.field(part).type
            found = read[part].combine_chunks().flatten()
            columns |= {fields[place].name: column for place, column in enumerate(found)}
        if any(map(_is_inexact, columns.values())):
            return None
        columns[REST] = pa.nulls(read.num_rows, pa.string())
        table = pa.table([columns[name] for name in schema.names], schema=schema)
        kept = mine(array("q", read["task"].to_numpy().tobytes()))
        return table if all(kept) else table.filter(pa.array(kept, pa.bool_()))


def _is_inexact(column: Any) -> bool:
    """Return whether numbers may have been whole ones that a double cannot hold."""
    if str(column.type) != "double":
        return False
    ends = importlib.import_module("pyarrow.compute").min_max(column).as_py()
    return any(abs(end or 0.0) >= _EXACT_IN_DOUBLE for end in ends.values())


def row(result: Result, argument: Any, value: Any) -> dict[str, Any]:
    """Return a result as a row; see `Run.frame`.

    No field of a result, which an agent names, takes the place of another column.
    """
    made: dict[str, Any] = {"key": result.key}
    fields = argument if isinstance(argument, Mapping) else {"argument": argument}
    made |= {str(name): field for name, field in fields.items()}
    # Names that are the same as text, such as those that are not a number, are no columns.
    has_columns = isinstance(value, Mapping) and len({*map(str, value)}) == len(value)
    fields = value if has_columns else {"value": value}
    for name, field in fields.items():
        free = str(name)
        while free in made or free in _OWN:
            free += "_result"
        made[free] = field
    about = {
        "attempt": result.attempt,
        "host": result.host,
        "seconds": ran_s(result.phases, result.claimed_at, result.ended_at),
    }
    return made | {name: value for name, value in about.items() if name not in made}


def frame(rows: Iterator[dict[str, Any]]) -> Any:
    """Return rows as a `pandas.DataFrame`; raise `UsageError` if pandas is not installed."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        raise ExtraMissing("frame() needs pandas", "frames") from None
    listed, names = list(rows), Names(_OWN)
    for row in listed:
        names.note(row)
    columns, lacks = names.chosen()
    if not lacks:
        return pandas.DataFrame(listed)
    known, rest = frozenset(columns), rest_name(columns)
    made = []
    for row in listed:
        left = {name: _plain(value) for name, value in without(row, known).items()}
        chosen = {name: value for name, value in row.items() if name in known}
        made.append(chosen | {rest: as_json(left) if left else None})
    return pandas.DataFrame(made, columns=[*columns, rest])


def warn_of(left_out: Mapping[str, int], calls: int, path: str) -> None:
    """Warn of calls that have no row. left_out: their numbers, by what became of them."""
    if left_out:
        rest = " and ".join(f"{count:,} {status}" for status, count in left_out.items())
        warnings.warn(
            f"{sum(left_out.values()):,} of the {calls:,} calls of {path} have no row ({rest}): "
            "`run.outcomes()` has their errors; so_far=True gives the rows without this warning",
            stacklevel=2,
        )


def arrow(pages: ResultPages, batch_rows: int) -> Any:
    """Return rows as a `pyarrow.RecordBatchReader`; raise `UsageError` if pyarrow is missing.

    The first rows decide the types of the columns. Arrow reads the others page by page, if it can:
    see `ResultPages.parsed`.
    """
    table = Table(map(_flat, pages.head()), own=_OWN)
    columns = ArrowColumns(table)

    def parts() -> Iterator[Any]:
        yield from columns.batches(table)
        # PostgreSQL makes the next page while Arrow reads this one.
        with ThreadPoolExecutor(1, "taskq-pages") as reader:
            while not table.complete and (page := pages.parsed(columns.schema, reader)) is not None:
                if isinstance(page, chain):
                    yield from columns.batches(table.rows(map(_flat, page)))
                else:
                    yield from page.to_batches()

    made = (batch for group in grouped(parts(), batch_rows) for batch in _batch(group))
    pyarrow = importlib.import_module("pyarrow")
    return pyarrow.RecordBatchReader.from_batches(columns.schema, made)


def _batch(group: Any) -> Any:
    return group.combine_chunks().to_batches()


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value if type(value) in _AS_IS else _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    """Return a value that a column takes: infinity as None, others as `typed` encodes them.

    A Decimal that no float can hold is one of those: it could not be written as JSON.
    """
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str, datetime)):
        return value
    try:
        if isinstance(value, Decimal) and math.isfinite(float(value)):
            return value
        return typed.encode(value)
    except (TypeError, ValueError, RecursionError):
        return repr(value)
