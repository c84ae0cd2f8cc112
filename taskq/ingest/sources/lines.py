"""Reader of text lines from untrusted bytes, plain or gzip, in bounded memory."""

from __future__ import annotations

import codecs
import io
import select
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol, TypeVar

from taskq.ingest.sources.gunzip import MAGIC, Gunzip, Some
from taskq.ingest.sources.records import BadLine, Damage, excerpt
from taskq.model.errors import Unavailable, UsageError

MAX_LINE_BYTES: Final = 1_048_576
MARK: Final = "\ufeff"
MARK_WITHIN: Final = "a byte order mark, left where files were joined, within"
"""Reason for a byte order mark that is not the first thing in its file."""

_BUFFER_BYTES: Final = 262_144
_OTHERS: Final = {
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
}
_HEAD_BYTES: Final = 6

_Found = TypeVar("_Found")


class ByteStream(Protocol):
    """The part of a buffered binary stream that `LineReader` needs."""

    def read1(self, size: int, /) -> bytes | None:
        """Return at most so many bytes, nothing only at the end, None if it would block."""

    def seek(self, position: int, /) -> int:
        """Go to a position, if the stream is a regular file."""

    def tell(self) -> int:
        """Return the position."""

    def fileno(self) -> int:
        """Return the descriptor; raise OSError if there is none."""

    def close(self) -> None:
        """Close the stream."""


class LineReader:
    """The lines of a stream, plain or gzip, as text without line ends.

    Iterating yields a `BadLine` in place of a line that is not UTF-8, contains NUL, is longer than
    1 MiB, or begins with a byte order mark, unless it is the first. The mark of the first line and
    the CR of CRLF are dropped. The lines of damaged gzip data end after the last whole one, and
    `damage` describes the damage. Iterating raises `UsageError` for a stream that is UTF-16 or
    compressed otherwise, and `Unavailable` if reading fails; all lines before that were yielded.
    """

    def __init__(self, stream: ByteStream, name: str) -> None:
        self.name = name
        self.number = 0
        self.ended = True  # whether the last line had a line end: false if the file was cut
        self.damage: Damage | None = None  # known when the lines have ended
        self._gunzip: Gunzip | None = None
        self._given = self._bytes_read = 0
        try:
            self._counted = _Counted(stream)
        except OSError as error:
            raise self._unavailable(error) from error
        head = self._counted.head
        for start, program in _OTHERS.items():
            if head.startswith(start) and (program != "bzip2" or head.endswith(b"1A")):
                raise UsageError(
                    f"{name} is compressed by {program}; only gzip can be read: "
                    f"decompress it, perhaps into a pipe"
                )
        raw: io.RawIOBase = self._counted
        if head.startswith(MAGIC):
            raw = self._gunzip = Gunzip(self._counted.some)
        self._readline = io.BufferedReader(raw, _BUFFER_BYTES).readline

    @property
    def bytes_read(self) -> int:
        """Return the bytes of the stream that the lines so far take, before decompression.

        For compressed data it is an estimate from the bytes read ahead; it never falls.
        """
        read_ahead = self._counted.count if self._gunzip is None else self._gunzip.given
        if read_ahead:
            share = self._counted.count * self._given // read_ahead
            self._bytes_read = max(self._bytes_read, share)
        return self._bytes_read

    def __iter__(self) -> Iterator[str | BadLine]:
        while raw := self._read():
            self.number += 1
            if raw[-1] != 10:  # noqa: PLR2004  # a line feed
                self.ended = False
                if len(raw) > MAX_LINE_BYTES:
                    yield self._too_long(raw)
                    continue
                if self._is_torn():
                    break
            if self.number == 1:
                raw = self._without_mark(raw)
            elif raw[0] == codecs.BOM_UTF8[0] and raw.startswith(codecs.BOM_UTF8):
                reason = f"{MARK_WITHIN} the file"
                yield BadLine(self.number, reason, excerpt(raw))
                continue
            try:
                line = raw.decode()
            except UnicodeDecodeError as error:
                reason = f"byte {error.start + 1} (0x{raw[error.start]:02x}) is not UTF-8"
                yield BadLine(self.number, reason, excerpt(raw))
                continue
            if "\0" in line:
                reason = f"character {line.index(chr(0)) + 1} is NUL, which a task cannot contain"
                yield BadLine(self.number, reason, excerpt(line))
                continue
            yield line.rstrip("\r\n")
        if self._gunzip is not None:
            self.damage = _damage_in(self._gunzip)

    def _is_torn(self) -> bool:
        """Return whether a line without an end is the beginning of a damaged line."""
        return self._gunzip is not None and bool(self._gunzip.damage) and not self._gunzip.whole

    def _read(self) -> bytes:
        try:
            raw = self._readline(MAX_LINE_BYTES + 1)
        except OSError as error:
            raise self._unavailable(error) from error
        self._given += len(raw)
        return raw

    def _unavailable(self, error: OSError) -> Unavailable:
        return Unavailable(f"{self.name}: reading failed after line {self.number}: {error}")

    def _without_mark(self, raw: bytes) -> bytes:
        if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise UsageError(f"{self.name} is UTF-16 text; save or convert it as UTF-8")
        return raw.removeprefix(codecs.BOM_UTF8)

    def _too_long(self, start: bytes) -> BadLine:
        rest = start
        while rest and not rest.endswith(b"\n"):
            rest = self._read()
        self.ended = rest.endswith(b"\n")
        reason = f"the line is longer than {MAX_LINE_BYTES} bytes"
        return BadLine(self.number, reason, excerpt(start))


def is_gzip(stream: ByteStream, name: str) -> bool:
    """Return whether a regular file begins as gzip; keep its position."""
    return _looked_at(stream, name, lambda counted: counted.head.startswith(MAGIC))


def damage_ahead(stream: ByteStream, name: str) -> Damage | None:
    """Return the damage of a regular gzip file, which is read to its end; keep its position.

    It takes a second for some 300 MB of text, and no memory.
    """
    return _looked_at(stream, name, _damage_ahead)


def _damage_ahead(counted: _Counted) -> Damage | None:
    gunzip = Gunzip(counted.some)
    while gunzip.some():
        pass
    return _damage_in(gunzip)


def _looked_at(stream: ByteStream, name: str, look: Callable[[_Counted], _Found]) -> _Found:
    try:
        start = stream.tell()
        found = look(_Counted(stream))
        stream.seek(start)
    except OSError as error:
        raise Unavailable(f"{name}: cannot be read: {error}") from error
    return found


def _damage_in(gunzip: Gunzip) -> Damage | None:
    """Return the damage that ended decompressed data early, or None."""
    if gunzip.damage is None:
        return None
    first, last = gunzip.verified + 1, gunzip.lines
    uncertain = (first, last) if first <= last else None
    reason = gunzip.damage
    if uncertain is not None:
        reason += f"; no checksum vouches for lines {first:,} to {last:,}"
    return Damage(gunzip.lines + 1, reason, "", uncertain)


class _Counted(Some):
    """A stream that counts the bytes read from it and shows its first bytes beforehand."""

    def __init__(self, stream: ByteStream) -> None:
        self.count = 0
        self._stream = stream
        self._pending = b""
        head = b""
        while len(head) < _HEAD_BYTES and (more := self.some(_HEAD_BYTES - len(head))):
            head += more
        self.head = self._pending = head
        self.count = 0

    def some(self, size: int) -> bytes:
        """Return at most so many bytes, none only at the end."""
        data = self._pending or self._stream.read1(size) or self._later(size)
        self._pending = b""
        self.count += len(data)
        return data

    def _later(self, size: int) -> bytes:
        """Return the data after an empty read: nothing at the end, else data that come later.

        A buffered reader also returns nothing if another process has made a pipe non-blocking and
        there is no data yet; the raw stream below it distinguishes the two.
        """
        beneath: Any = getattr(self._stream, "raw", None)
        data: bytes | None = b"" if beneath is None else beneath.read(size)
        while data is None:
            select.select([beneath], [], [])
            data = beneath.read(size)
        return data
