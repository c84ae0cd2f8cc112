"""Seed files: finding, opening and recognising them."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, TypeAlias, cast

from taskq.errors import NotFound, Unavailable, UsageError
from taskq.sources import jsonl, sdf, smiles, table
from taskq.sources.lines import ByteStream, Lines
from taskq.sources.records import DEFAULT_OPTIONS, Record, Source, SourceOptions

Reader: TypeAlias = Callable[[Lines, SourceOptions], Iterator[Record]]


@dataclass(frozen=True, slots=True)
class Format:
    """A way to write tasks down: its reader, the suffixes of its files, the options it knows."""

    read: Reader
    suffixes: tuple[str, ...]
    options: frozenset[str]


FORMATS: Final = {
    "smiles": Format(smiles.read, (".smi", ".smiles"), frozenset({"delimiter", "header"})),
    "csv": Format(table.read_csv, (".csv",), frozenset({"key", "priority", "types", "delimiter"})),
    "tsv": Format(table.read_tsv, (".tsv", ".tab"), frozenset({"key", "priority", "types"})),
    "jsonl": Format(jsonl.read, (".jsonl", ".ndjson"), frozenset({"key", "priority"})),
    "sdf": Format(sdf.read, (".sdf", ".sd"), frozenset({"key", "priority"})),
}


def open_source(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002  # the name that the command line and files use
    options: SourceOptions = DEFAULT_OPTIONS,
) -> Source:
    """Open a seed file, plain or gzip, or standard input (`-`), which needs a format.

    The format is guessed from the suffix: `ligands.smi.gz` is SMILES; whether it is gzip
    shows in the first bytes, whatever the name.

    Raise `NotFound` if there is no such file, and `UsageError` for a directory, a file that
    may not be read, an unknown suffix or format, and an option that the format does not know.
    Reading the source yields a task or a `BadLine` per record; it raises `UsageError` where
    nothing can be read any more (damaged gzip, a table without a usable header) and
    `Unavailable` when the disk fails.
    """
    from_stdin = str(path) == "-"
    name = "standard input" if from_stdin else str(path)
    chosen = choose_format(name, format, options)
    stream = _stdin() if from_stdin else _open(Path(path))
    try:
        return _FileSource(name, stream, chosen.read, options, shared=from_stdin)
    except Unavailable:
        stream.close()
        raise


def choose_format(name: str, asked: str | None, options: SourceOptions) -> Format:
    """Return the format that was asked for, or that a file's name shows.

    Raise `UsageError` if there is none such, or one of the options does not apply to it.
    """
    chosen = _by_suffix(name) if asked is None else FORMATS.get(asked)
    if chosen is None:
        raise UsageError(f"unknown format {asked!r}; known are: {', '.join(FORMATS)}")
    for option in fields(options):
        if option.name not in chosen.options and getattr(options, option.name) != option.default:
            raise UsageError(f"{name}: the option {option.name!r} does not apply to its format")
    return chosen


def _by_suffix(name: str) -> Format:
    plain = name.lower().removesuffix(".gz")
    for known in FORMATS.values():
        if plain.endswith(known.suffixes):
            return known
    suffixes = ", ".join(suffix for known in FORMATS.values() for suffix in known.suffixes)
    raise UsageError(
        f"{name}: the format cannot be told from the name; choose one of {', '.join(FORMATS)}, "
        f"or use one of the suffixes {suffixes}, with or without .gz"
    )


def _open(path: Path) -> ByteStream:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise NotFound(f"there is no file {str(path)!r}") from None
    except IsADirectoryError:
        raise UsageError(f"{str(path)!r} is a directory; name a file in it") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error}") from None


def _stdin() -> ByteStream:
    if sys.stdin is None:
        raise UsageError("standard input is closed; name a file")
    return cast("ByteStream", sys.stdin.buffer)  # its declared type lacks read1


class _FileSource(Source):
    def __init__(
        self, name: str, stream: ByteStream, read: Reader, options: SourceOptions, *, shared: bool
    ) -> None:
        self.name = name
        self.total_bytes = _size(stream)
        self._shared = shared  # standard input is not ours to close
        self._stream = stream
        self._lines = Lines(stream, name)
        self._records = read(self._lines, options)

    @property
    def bytes_read(self) -> int:
        return self._lines.bytes_read

    @property
    def line(self) -> int:
        return self._lines.number

    def __iter__(self) -> Iterator[Record]:
        return self._records

    def close(self) -> None:
        if not self._shared:
            self._stream.close()


def _size(stream: ByteStream) -> int | None:
    try:
        status = os.fstat(stream.fileno())
    except OSError:  # a stream in memory
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
