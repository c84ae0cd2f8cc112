"""Writer of tables as Parquet files; the only module that imports pyarrow, an optional extra."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from importlib.abc import MetaPathFinder
from itertools import islice
from types import NoneType
from typing import Any, BinaryIO, Final

from taskq.model.errors import ExtraMissing
from taskq.model.words import as_json, as_text
from taskq.results.tabular import Table

#: Rows of a record batch, each of at most 320 KiB.
PIECE_ROWS: Final = 100
_ROW_GROUP_BYTES: Final = 16_777_216

#: For each kind of column, the types whose every value fits it.
_SURE: Final[dict[str, set[type]]] = {
    "bool": {bool, NoneType},
    "whole": {NoneType},
    "number": {float, NoneType},
    "instant": {datetime, NoneType},
    "text": {str, NoneType},
}
#: Kinds of columns other than text, in the order of preference.
_TYPED: Final = ["bool", "whole", "number", "instant"]
_INT64: Final = range(-(2**63), 2**63)
_EXACT_IN_DOUBLE: Final = range(-(2**53), 2**53 + 1)


def require_pyarrow() -> Any:
    """Return the module pyarrow; raise `UsageError` if it is not installed."""
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ImportError:
        raise ExtraMissing("Parquet needs pyarrow", "parquet", "export as csv or jsonl") from None


class _WithoutPandas(MetaPathFinder):
    """Finds no pandas, although it may be there."""

    def find_spec(self, fullname: str, *_: object) -> None:
        """Raise `ModuleNotFoundError` for pandas."""
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


def spare_memory() -> None:
    """Let pyarrow take 80 MB less, in a process that gives it no frames and has no other threads.

    With its first array it imports pandas, if it is there, or never; and its own allocator keeps
    what was freed. Nothing happens if it is not installed, or if pandas is imported already.
    """
    try:
        pa = require_pyarrow()
    except ExtraMissing:
        return
    pa.set_memory_pool(pa.system_memory_pool())
    without = _WithoutPandas()
    sys.meta_path.insert(0, without)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(without)


def write_table(table: Table, stream: BinaryIO) -> None:
    """Write a table in row groups of about 16 MiB; see `ArrowColumns`."""
    schema, groups = row_groups(table)
    with require_pyarrow().parquet.ParquetWriter(stream, schema) as writer:
        for group in groups:
            writer.write_table(group)


def row_groups(table: Table) -> tuple[Any, Iterator[Any]]:
    """Return the schema of a table, and its rows as Arrow tables of about 16 MiB."""
    columns = ArrowColumns(table)
    return columns.schema, grouped(columns.batches(table), None)


class ArrowColumns:
    """The columns of a table, with types.

    A column whose values in the sample are all booleans, whole numbers, numbers or instants has
    that type; any other is text. A later value that does not fit goes to `rest`.
    """

    def __init__(self, table: Table) -> None:
        pa = require_pyarrow()
        self._table = table
        self._kinds = _kinds(table)
        types = {
            "bool": pa.bool_(),
            "whole": pa.int64(),
            "number": pa.float64(),
            "instant": pa.timestamp("us", tz="UTC"),
            "text": pa.string(),
        }
        named = [
            (column, types[kind]) for column, kind in zip(table.columns, self._kinds, strict=True)
        ]
        if table.rest is not None:
            named.append((table.rest, types["text"]))
        self.schema = pa.schema(named)

    def batches(self, rows: Iterable[tuple[list[Any], dict[str, Any]]]) -> Iterator[Any]:
        """Yield rows, in the form of `Table.rows`, as record batches."""
        pa, rest = require_pyarrow(), iter(rows)
        while batch := list(islice(rest, PIECE_ROWS)):
            columns = _fitted(self._table, self._kinds, batch)
            arrays = [
                pa.array(column, field.type)
                for column, field in zip(columns, self.schema, strict=True)
            ]
            yield pa.record_batch(arrays, schema=self.schema)


def grouped(batches: Iterable[Any], most_rows: int | None) -> Iterator[Any]:
    """Yield tables of record batches, 16 MiB each or, if given, so many rows."""
    pa, group, size, rows = require_pyarrow(), [], 0, 0
    for batch in batches:
        rest = batch
        while rest.num_rows:
            now = rest if most_rows is None else rest.slice(0, most_rows - rows)
            rest = rest.slice(now.num_rows)
            group.append(now)
            size, rows = size + now.nbytes, rows + now.num_rows
            if rows == most_rows or size >= _ROW_GROUP_BYTES:
                yield pa.Table.from_batches(group)
                group.clear()
                size = rows = 0
    if group:
        yield pa.Table.from_batches(group)


def _fitted(
    table: Table, kinds: list[str], rows: list[tuple[list[Any], dict[str, Any]]]
) -> Iterator[Sequence[Any]]:
    """Yield the columns of rows; a value that does not fit goes to the column of the rest."""
    rests = [rest for _, rest in rows]
    values = zip(*(row for row, _ in rows), strict=True)
    for name, kind, column in zip(table.columns, kinds, values, strict=True):
        # Few of a million values have a type that needs a look at each.
        if {*map(type, column)} <= _SURE[kind]:
            yield column
        else:
            yield [_fitted_value(name, kind, *pair) for pair in zip(column, rests, strict=True)]
    if table.rest is not None:
        yield [as_json(rest) if rest else None for rest in rests]


def _fitted_value(name: str, kind: str, value: Any, rest: dict[str, Any]) -> Any:
    if not _fits(kind, value):
        rest[name] = value
        return None
    return as_text(value) if kind == "text" and value is not None else value


def _kinds(table: Table) -> list[str]:
    """Return for each column the first kind that all its values in the sample fit."""
    possible: dict[str, list[str]] = {}
    known = frozenset(table.columns)
    for flat in table.sample():
        for name, value in flat.items():
            if value is not None and name in known:
                kinds = possible.get(name, _TYPED)
                possible[name] = [kind for kind in kinds if _fits(kind, value)]
    return [next(iter(possible.get(name, ())), "text") for name in table.columns]


def _fits(kind: str, value: Any) -> bool:
    if value is None or kind == "text":
        return True
    if kind == "bool":
        return isinstance(value, bool)
    if kind == "instant":
        return isinstance(value, datetime)
    if isinstance(value, bool):
        return False
    if kind == "whole":
        return isinstance(value, int) and value in _INT64
    return isinstance(value, float) or (isinstance(value, int) and value in _EXACT_IN_DOUBLE)
