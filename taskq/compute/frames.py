"""Results as rows of plain columns: for pandas, and as Arrow record batches."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from types import NoneType
from typing import Any, Final

from taskq.compute.result_pages import ResultPages
from taskq.model.errors import ExtraMissing
from taskq.model.views import Result
from taskq.results.parquet import PIECE_ROWS, ArrowColumns, grouped
from taskq.results.tabular import Table
from taskq_agent import typed

_AS_IS: Final = frozenset({str, int, bool, NoneType})
BATCH_ROWS: Final = 10_000


def row(result: Result, argument: Any, value: Any) -> dict[str, Any]:
    """Return a result as a row; see `Run.frame`."""
    made: dict[str, Any] = {"key": result.key}
    made |= argument if isinstance(argument, Mapping) else {"argument": argument}
    fields = value if isinstance(value, Mapping) else {"value": value}
    for name, one in fields.items():
        made[f"{name}_result" if name in made else str(name)] = one
    about = {
        "attempt": result.attempt,
        "host": result.host,
        "seconds": (result.ended_at - result.claimed_at).total_seconds(),
    }
    return made | {name: one for name, one in about.items() if name not in made}


def frame(rows: Iterator[dict[str, Any]]) -> Any:
    """Return rows as a `pandas.DataFrame`; raise `UsageError` if pandas is not installed."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        raise ExtraMissing("frame() needs pandas", "frames") from None
    return pandas.DataFrame(list(rows))


def arrow(pages: ResultPages, batch_rows: int) -> Any:
    """Return rows as a `pyarrow.RecordBatchReader`; raise `UsageError` if pyarrow is missing.

    The first rows decide the types of the columns. Arrow reads the others page by page, if it can:
    see `ResultPages.parsed`.
    """
    table = Table(map(_flat, pages.head()))
    columns = ArrowColumns(table)

    def parts() -> Iterator[Any]:
        yield from columns.batches(table)
        while not table.complete and (page := pages.parsed(columns.schema)) is not None:
            if isinstance(page, map):
                yield from columns.batches(table.rows(map(_flat, page)))
            else:
                yield from page.to_batches(PIECE_ROWS)

    made = (batch for group in grouped(parts(), batch_rows) for batch in _batch(group))
    pyarrow = importlib.import_module("pyarrow")
    return pyarrow.RecordBatchReader.from_batches(columns.schema, made)


def _batch(group: Any) -> Any:
    return group.combine_chunks().to_batches()


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one if type(one) in _AS_IS else _plain(one) for name, one in row.items()}


def _plain(value: Any) -> Any:
    """Return a value that a column takes: infinity as None, others as `typed` encodes them."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str, datetime, Decimal)):
        return value
    try:
        return typed.encode(value)
    except (TypeError, RecursionError):
        return repr(value)
