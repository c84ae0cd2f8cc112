"""Seed files: choose the format, open the file, plain or compressed, and read its records."""

from __future__ import annotations

import errno
import functools
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, TypeAlias, cast

from taskq.ingest.sources import jsonl, sdf, smiles, table
from taskq.ingest.sources.lines import ByteStream, LineReader, is_compressed, looked_at
from taskq.ingest.sources.records import (
    DEFAULT_OPTIONS,
    Damage,
    Notes,
    Record,
    Source,
    SourceOptions,
)
from taskq.ingest.sources.unpacking import KINDS
from taskq.model.errors import NotFound, UsageError

Reader: TypeAlias = Callable[..., Iterator[Record]]

_TABLE_OPTIONS: Final = frozenset({"key", "priority", "types", "header", "encoding"})


@dataclass(frozen=True, slots=True)
class Format:
    """A format of seed files: its reader, file suffixes, and the options that apply to it.

    read: takes the lines and options. survey: looks through a regular file before it is read; the
    reader takes what it returns too, as `survey`.
    """

    read: Reader
    suffixes: tuple[str, ...]
    options: frozenset[str]
    survey: Callable[[LineReader, SourceOptions], table.ColumnSurvey] | None = None


FORMATS: Final = {
    "smiles": Format(
        smiles.read,
        (".smi", ".smiles", ".cxsmiles", ".cxsmi", ".ism", ".can"),
        frozenset({"delimiter", "header", "smiles_field", "encoding"}),
    ),
    "csv": Format(table.read_csv, (".csv",), _TABLE_OPTIONS | {"delimiter"}, table.survey_csv),
    "tsv": Format(table.read_tsv, (".tsv", ".tab"), _TABLE_OPTIONS, table.survey_tsv),
    "jsonl": Format(jsonl.read, (".jsonl", ".ndjson"), frozenset({"key", "priority", "encoding"})),
    "sdf": Format(sdf.read, (".sdf", ".sd"), frozenset({"key", "priority", "encoding"})),
}


def open_source(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002  # the name that the command line and files use
    options: SourceOptions = DEFAULT_OPTIONS,
) -> Source:
    """Open a seed file, plain or compressed, or standard input (`-`), which needs a format.

    The format is guessed from the suffix: `ligands.smi.gz` is SMILES. The first bytes show whether
    it is gzip, bzip2, xz, zstd or zip, whatever the name.

    A pipe, or any other file that is not regular, is opened only at the first record: what one
    opening reads from it is lost to any other, and a named pipe waits for its writer. So a source
    may be made, inspected and closed, and made again.

    Raise `NotFound` if there is no such file, and `UsageError` for a directory, a file without the
    right to read it, an unknown suffix or format, and an option that the format does not have.
    Reading the source yields a task or a `BadLine` per record; it raises `UsageError` if nothing
    can be read (a table without a usable header) and `Unavailable` if the disk fails. What the
    reader did with the file, such as names that it gave to columns, goes to `notes` of the source.

    Damaged gzip yields one `Damage`, and every whole line before the damage is a record. A regular
    file is verified beforehand, at some 300 MB of text a second, and yields its `Damage` first. A
    pipe yields it last: only then does the reader know that the records before it are uncertain.
    So it is with other compressions, but up to 256 KiB before the damage may be missing too.

    A regular table is looked through beforehand too, to know which columns are numbers.
    """
    from_stdin = str(path) == "-"
    name = "standard input" if from_stdin else str(path)
    is_regular = from_stdin or _is_regular(Path(path))  # a file that is missing has no format
    chosen = choose_format(name, format, options)
    opens = _stdin if from_stdin else functools.partial(_open, Path(path))
    if not is_regular:
        return _FileSource(name, None, opens, chosen, options)
    return _FileSource(name, opens(), opens, chosen, options, shared=from_stdin)


def check_read_once(paths: Sequence[str]) -> None:
    """Raise `UsageError` if a pipe or standard input is named twice: it can be read only once."""
    seen = set()
    for path in paths:
        try:
            status = os.fstat(0) if path == "-" else Path(path).stat()
        except (OSError, ValueError):  # opening the file raises it again
            continue
        identity = (status.st_dev, status.st_ino)
        if (path == "-" or stat.S_ISFIFO(status.st_mode)) and identity in seen:
            raise UsageError(f"{path!r} is named twice, but can be read only once")
        seen.add(identity)


def choose_format(name: str, asked: str | None, options: SourceOptions) -> Format:
    """Return the format with the given name, or of a file's suffix.

    Raise `UsageError` if there is none, or one of the options does not apply to it.
    """
    chosen = _by_suffix(name) if asked is None else FORMATS.get(asked)
    if chosen is None:
        raise UsageError(f"unknown format {asked!r}; known are: {', '.join(FORMATS)}")
    for option in fields(options):
        if option.name not in chosen.options and getattr(options, option.name) != option.default:
            raise UsageError(
                f"{name}: the option {option.name!r} does not apply to its format; leave it out"
            )
    return chosen


def _by_suffix(name: str) -> Format:
    plain = name.lower()
    for kind in KINDS:
        plain = plain.removesuffix(kind.suffix)
    for known in FORMATS.values():
        if plain.endswith(known.suffixes):
            return known
    suffixes = ", ".join(suffix for known in FORMATS.values() for suffix in known.suffixes)
    raise UsageError(
        f"{name}: the name does not show the format; choose one of {', '.join(FORMATS)} "
        f"(`taskq seed --format`), or use one of the suffixes {suffixes}, with or without "
        ".gz, .bz2, .xz, .zst or .zip"
    )


def _is_regular(path: Path) -> bool:
    """Return whether a file is regular; raise the errors of opening it, without opening it."""
    with _opening_errors(path):
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError
        if not os.access(path, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return stat.S_ISREG(mode)


def _open(path: Path) -> ByteStream:
    with _opening_errors(path):
        return path.open("rb")


@contextmanager
def _opening_errors(path: Path) -> Iterator[None]:
    try:
        yield
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
    """A file to read. stream: of a regular file or standard input; None for a pipe."""

    def __init__(
        self,
        name: str,
        stream: ByteStream | None,
        opens: Callable[[], ByteStream],
        chosen: Format,
        options: SourceOptions,
        *,
        shared: bool = False,
    ) -> None:
        self.name = name
        self.total_bytes = None if stream is None else _size(stream)
        self._shared = shared  # standard input must stay open
        self._stream = stream
        self._opens = opens
        self._lines: LineReader | None = None
        self.notes: Notes = Notes(name)
        if stream is not None and self.total_bytes:
            surveyed = chosen.survey is not None and options.types == "guess"
            self.checked_first = surveyed or is_compressed(stream, name)
        self._records = self._read(chosen, options)

    @property
    def bytes_read(self) -> int:
        return 0 if self._lines is None else self._lines.bytes_read

    @property
    def line(self) -> int:
        return 0 if self._lines is None else self._lines.number

    def __iter__(self) -> Iterator[Record]:
        return self._records

    def close(self) -> None:
        if self._stream is not None and not self._shared:
            self._stream.close()

    def _read(self, chosen: Format, options: SourceOptions) -> Iterator[Record]:
        if self._stream is None:
            self._stream = self._opens()
        read, damage = self._looked_through(chosen, options, self._stream)
        if damage is not None:
            yield damage
        lines = self._lines = self._reader(self._stream, options)
        for record in read(lines, options):
            if damage is None and lines.damage is not None:
                # The damage is the cause; the reader only sees an early end.
                damage = lines.damage
                yield damage
            yield record
        if damage is None and lines.damage is not None:
            yield lines.damage

    def _looked_through(
        self, chosen: Format, options: SourceOptions, stream: ByteStream
    ) -> tuple[Reader, Damage | None]:
        """Return the reader of the format, with what it found in a regular file, and its damage."""
        if not self.total_bytes or (chosen.survey is None and not self.checked_first):
            return chosen.read, None

        def look() -> tuple[Reader, Damage | None]:
            lines = self._reader(stream, options)
            read = chosen.read
            if chosen.survey is not None:
                read = functools.partial(read, survey=chosen.survey(lines, options))
            lines.drain()
            return read, lines.damage

        return looked_at(stream, self.name, look)

    def _reader(self, stream: ByteStream, options: SourceOptions) -> LineReader:
        return LineReader(stream, self.name, options.encoding, self.notes)


def _size(stream: ByteStream) -> int | None:
    try:
        status = os.fstat(stream.fileno())
    except OSError:  # a stream in memory
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
