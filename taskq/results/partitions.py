"""Parquet in a folder of several files, split by a number of rows or by the value of a column.

Folders of values are named in the way of Hive (`site=cern/part-0.parquet`), so that other programs
read the column from the names. The folder appears when all of it is complete.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from taskq.files.destination import new_folder, sync_folder
from taskq.model.errors import UsageError
from taskq.model.words import as_text
from taskq.results.parquet import require_pyarrow, row_groups
from taskq.results.tabular import Table

#: Most values of a column; each has a file that is open until the end.
MOST_VALUES: Final = 500
#: Most bytes of rows that wait until a file has enough of them for a row group.
_MOST_WAITING: Final = 128 << 20
_NAME_BYTES: Final = 255
#: Hive's name for the folder of rows without a value, or with an empty one.
_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"


def write_partitioned(
    records: Iterable[Mapping[str, Any]], folder: str | Path, partition: str
) -> int:
    """Write records to a new folder of Parquet files; return how many.

    partition: `rows=N`, for `part-00000.parquet` and so on with N rows each, or a column, such as
    `result.target`, for a folder for each of its values. Columns are those of `records.write`.

    Raise `UsageError` if the folder is not empty, there is no such column, or it has more than 500
    values, or a value that is too long for a name; then nothing is written.
    """
    require_pyarrow()
    number = _rows(partition)
    with new_folder(folder) as made:
        table = Table(records)
        if number is not None:
            return _write_by_number(table, made, number)
        if partition not in table.columns and table.columns:
            raise UsageError(
                f"no column is called {partition!r:.80}; there are {', '.join(table.columns):.500}"
            )
        return _write_by_value(table, made, partition)


def _rows(partition: str) -> int | None:
    name, equals, number = partition.partition("=")
    if name != "rows" or not equals:
        return None
    if not re.fullmatch("[1-9][0-9]{0,17}", number):
        raise UsageError(f"{partition!r:.80}: a file has at least one row, such as rows=1000000")
    return int(number)


def _write_by_number(table: Table, folder: Path, most: int) -> int:
    schema, groups = row_groups(table)
    written = 0
    with ExitStack() as last:
        writer = last.enter_context(_file(folder / "part-00000.parquet", schema))
        for group in groups:
            rest = group
            while rest.num_rows:
                if written and written % most == 0:
                    last.close()
                    name = f"part-{written // most:05}.parquet"
                    writer = last.enter_context(_file(folder / name, schema))
                now = rest.slice(0, most - written % most)
                writer.write_table(now)
                written += now.num_rows
                rest = rest.slice(now.num_rows)
    return written


def _write_by_value(table: Table, folder: Path, column: str) -> int:
    schema, groups = row_groups(table)
    written = 0
    with ExitStack() as files:
        writers: dict[str, Any] = {}
        waiting: dict[str, list[Any]] = {}
        known: set[str] = set()

        def flush(name: str) -> None:
            if name not in writers:
                (folder / name).mkdir()
                path = folder / name / "part-0.parquet"
                kept = schema.remove(schema.get_field_index(column))
                writers[name] = files.enter_context(_file(path, kept))
            writers[name].write_table(require_pyarrow().concat_tables(waiting.pop(name)))

        for group in groups:
            written += group.num_rows
            for name, part in _parts(group, column):
                waiting.setdefault(name, []).append(part)
                known.add(name)
                if len(known) > MOST_VALUES:
                    raise UsageError(
                        f"{column} has more than {MOST_VALUES} values: partition by a "
                        "column with fewer, or by rows=1000000"
                    )
            sizes = {name: sum(batch.nbytes for batch in parts) for name, parts in waiting.items()}
            while sum(sizes.values()) > _MOST_WAITING:
                largest = max(sizes, key=sizes.__getitem__)
                flush(largest)
                del sizes[largest]
        for name in list(waiting):
            flush(name)
    return written


def _parts(group: Any, column: str) -> Iterator[tuple[str, Any]]:
    """Yield the rows for each folder, in order, without the column."""
    rows: dict[str, list[int]] = {}
    for row, value in enumerate(group[column].to_pylist()):
        rows.setdefault(_folder_name(column, value), []).append(row)
    rest = group.drop_columns([column])
    for name, numbers in rows.items():
        yield name, rest.take(numbers)


def _folder_name(column: str, value: object) -> str:
    name = f"{quote(column, safe=' ')}={quote(as_text(value), safe=' ') or _NO_VALUE}"
    if len(name) > _NAME_BYTES:
        raise UsageError(f"a folder cannot be named {name[:80]}...: partition by a shorter value")
    return name


@contextmanager
def _file(path: Path, schema: Any) -> Iterator[Any]:
    with path.open("xb") as stream:
        with require_pyarrow().parquet.ParquetWriter(stream, schema) as writer:
            yield writer
        stream.flush()
        os.fsync(stream.fileno())
    sync_folder(path.parent)
