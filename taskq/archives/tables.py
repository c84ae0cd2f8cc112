"""The tables of an archive as Parquet files: written by row groups, read in small batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO, Final

from taskq.archives.columns import TABLES
from taskq.model.errors import ArchiveDamaged
from taskq.results.parquet import require_pyarrow

_PIECE_ROWS: Final = 100
_BATCH_ROWS: Final = 100
_GROUP_BYTES: Final = 1 << 22
#: Of a row group in memory; the writer's have 4 MiB, or 100 rows if these are larger.
MAX_GROUP_BYTES: Final = 1 << 26
#: Of the description at the end of a file.
MAX_FOOTER_BYTES: Final = 1 << 22
#: Of a file.
MAX_FILE_ROWS: Final = 1 << 27
_COMPRESSION: Final = "ZSTD"
_END_BYTES: Final = 8


def write(stream: BinaryIO, table: str, rows: Iterable[Sequence[Any]]) -> int:
    """Write rows as a Parquet file, in the order of the table's columns; return how many."""
    pa, schema, counted = require_pyarrow(), _schema(table), 0
    # Without dictionaries, no few bytes become many when they are read. Statistics of long texts
    # would make the description at the end longer than `read` takes: only the first column has any.
    with pa.parquet.ParquetWriter(
        stream, schema, compression="zstd", use_dictionary=False, write_statistics=schema.names[:1]
    ) as writer:
        for group in _groups(rows, schema):
            writer.write_table(group)
            counted += group.num_rows
    return counted


def read(file: BinaryIO, table: str, name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file that anybody may have made, a few in memory at a time.

    Raise `ArchiveDamaged`, which names the file, if it is not one that `write` makes.
    """
    pa = require_pyarrow()
    try:
        _check_footer(file)
        limits = {
            "thrift_string_size_limit": MAX_FOOTER_BYTES,
            "thrift_container_size_limit": MAX_FOOTER_BYTES,
        }
        parquet = pa.parquet.ParquetFile(file, **limits, pre_buffer=False, memory_map=False)
        _check(parquet, table)
        for batch in parquet.iter_batches(batch_size=_BATCH_ROWS, use_threads=False):
            yield from batch.to_pylist()
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        why = "its content does not fit into memory" if isinstance(error, MemoryError) else error
        raise ArchiveDamaged(name, f"it is not the table {table}: {why}") from None


def _schema(table: str) -> Any:
    pa = require_pyarrow()
    types = {
        "int16": pa.int16(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "float": pa.float64(),
        "bool": pa.bool_(),
        "text": pa.string(),
        "instant": pa.timestamp("us", tz="UTC"),
    }
    return pa.schema(
        [
            (name, pa.list_(types[kind[:-2]]) if kind.endswith("[]") else types[kind])
            for name, kind in TABLES[table].items()
        ]
    )


def _groups(rows: Iterable[Sequence[Any]], schema: Any) -> Iterator[Any]:
    """Yield rows as Arrow tables of about `_GROUP_BYTES`."""
    pa, group, size = require_pyarrow(), [], 0
    for piece in _pieces(rows, schema):
        group.append(piece)
        size += piece.nbytes
        if size >= _GROUP_BYTES:
            yield pa.Table.from_batches(group)
            group, size = [], 0
    if group:
        yield pa.Table.from_batches(group)


def _pieces(rows: Iterable[Sequence[Any]], schema: Any) -> Iterator[Any]:
    pa, rest = require_pyarrow(), iter(rows)
    while piece := list(islice(rest, _PIECE_ROWS)):
        columns = zip(*piece, strict=True)
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)
        ]
        yield pa.record_batch(arrays, schema=schema)


def _check_footer(file: BinaryIO) -> None:
    """Refuse a file whose end announces a long description, before anything reads it."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _END_BYTES))
    end = file.read(_END_BYTES)
    if end[4:] != b"PAR1" or int.from_bytes(end[:4], "little") > min(size, MAX_FOOTER_BYTES):
        raise ValueError("it is not a Parquet file")
    file.seek(0)


def _check(parquet: Any, table: str) -> None:
    if not parquet.schema_arrow.equals(_schema(table)):
        raise ValueError("it has other columns, or other types")
    described = parquet.metadata
    if described.num_rows > MAX_FILE_ROWS:
        raise ValueError(f"it has more than {MAX_FILE_ROWS} rows")
    for group in map(described.row_group, range(described.num_row_groups)):
        columns = [group.column(number) for number in range(group.num_columns)]
        if sum(column.total_uncompressed_size for column in columns) > MAX_GROUP_BYTES:
            raise ValueError(f"a row group has more than {MAX_GROUP_BYTES} bytes")
        if any(
            column.has_dictionary_page or column.compression != _COMPRESSION for column in columns
        ):
            raise ValueError("its columns are compressed in another way")
