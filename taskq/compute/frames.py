"""Results as rows of plain columns: for pandas, and as record batches of Arrow."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from types import NoneType
from typing import Any, Final

from taskq.errors import UsageError
from taskq.export.parquet import batches
from taskq.export.tabular import Table
from taskq.views import Result
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
        raise UsageError("frame() needs pandas: pip install 'taskq[frames]'") from None
    return pandas.DataFrame(list(rows))


def arrow(rows: Iterator[dict[str, Any]], batch_rows: int) -> Any:
    """Return rows as a `pyarrow.RecordBatchReader`; raise `UsageError` if pyarrow is missing."""
    flat = (
        {name: one if type(one) in _AS_IS else _plain(one) for name, one in row.items()}
        for row in rows
    )
    schema, parts = batches(Table(flat), batch_rows)
    pyarrow = importlib.import_module("pyarrow")
    return pyarrow.RecordBatchReader.from_batches(schema, parts)


def _plain(value: Any) -> Any:
    """Return a value that a column takes: no infinity, and what JSON cannot say as `typed` does."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str, datetime, Decimal)):
        return value
    try:
        return typed.encode(value)
    except (TypeError, RecursionError):
        return repr(value)
