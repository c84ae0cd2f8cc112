"""Reader of text lines from untrusted bytes, plain or compressed, in bounded memory."""

from __future__ import annotations

import codecs
import io
import re
import select
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol, TypeVar

from taskq.ingest.sources.records import UTF16, BadLine, Damage, Notes, excerpt
from taskq.ingest.sources.unpacking import (
    HEAD_BYTES,
    Some,
    Unpacked,
    compression_of,
    unpacked,
)
from taskq.model.errors import Unavailable, UsageError

MAX_LINE_BYTES: Final = 1_048_576
MARK: Final = "\ufeff"
MARK_WITHIN: Final = "a byte order mark, left where files were joined, within"
"""Reason for a byte order mark that is not the first thing in its file."""

_MARK_BYTE: Final = codecs.BOM_UTF8[0]
_BUFFER_BYTES: Final = 262_144
_FIRST_LINE_BYTES: Final = 65_536
"""Most that is looked through for the kind of line ends."""
_LONE_CR: Final = re.compile(rb"\r[^\n]")

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
    """The lines of a stream, plain or compressed, as text without line ends.

    encoding: that of the text; None means UTF-8, or UTF-16 if there is its byte order mark. Lines
    end with LF, CRLF, or, in a stream without LF, with CR.

    Iterating yields a `BadLine` in place of a line that is not in the encoding, contains NUL, is
    longer than 1 MiB, or begins with a byte order mark, unless it is the first. The mark of the
    first line is dropped. The lines of damaged compressed data end after the last whole one, and
    `damage` describes the damage. Iterating raises `UsageError` for a stream that cannot be
    unpacked, and `Unavailable` if reading fails; all lines before that were yielded.
    """

    def __init__(
        self,
        stream: ByteStream,
        name: str,
        encoding: str | None = None,
        notes: Notes | None = None,
    ) -> None:
        self.name = name
        self.notes = Notes(name) if notes is None else notes
        self.number = 0
        self.ended = True  # whether the last line had a line end: false if the file was cut
        self.damage: Damage | None = None  # known when the lines have ended
        self._unpacked: Unpacked | None = None
        self._given = self._bytes_read = 0
        try:
            self._counted = _Counted(stream)
            self._raw = self._text(stream, encoding)
        except OSError as error:
            raise self._unavailable(error) from error
        self._readline = io.BufferedReader(self._raw, _BUFFER_BYTES).readline

    def _text(self, stream: ByteStream, encoding: str | None) -> Some:
        """Return the text, its lines ended by LF; set what decodes a line of it."""
        raw: Some = self._counted
        kind = compression_of(self._counted.head)
        if kind is not None:
            raw = self._unpacked = unpacked(kind, raw.some, stream, self.name)
        ahead = _Ahead(raw)
        head = ahead.first_line()
        marked = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        if marked:
            encoding = "utf-16"
        self._encoding = "utf-8" if encoding is None else codecs.lookup(encoding).name
        self._shown = self._encoding.upper() if self._encoding.startswith("utf") else self._encoding
        if self._encoding == "utf-16" and not marked:
            raise UsageError(
                f"{self.name} has no byte order mark: name its encoding utf-16-le or utf-16-be"
            )
        if self._encoding in UTF16:
            ahead = _Ahead(_AsUtf8(ahead, self._encoding))
            head = ahead.first_line()
            self._encoding = "utf-8"
        if not _LONE_CR.search(head) or not ahead.is_all_without_lf(head):
            return ahead
        if self._unpacked is not None:
            self._unpacked.line_end = b"\r"
            self._unpacked.lines = ahead.pending.count(b"\r")
        return _FromCr(ahead)

    @property
    def bytes_read(self) -> int:
        """Return the bytes of the stream that the lines so far take, before decompression.

        For compressed data it is an estimate from the bytes read ahead; it never falls.
        """
        if self._raw.given:
            taken = self._unpacked.taken if self._unpacked else None
            taken = self._counted.count if taken is None else taken
            share = taken * self._given // self._raw.given
            self._bytes_read = max(self._bytes_read, share)
        return self._bytes_read

    def __iter__(self) -> Iterator[str | BadLine]:
        encoding = self._encoding
        plain = encoding == "utf-8"
        while raw := self._read():
            self.number += 1
            if raw[-1] != 10:  # noqa: PLR2004  # a line feed
                self.ended = False
                if len(raw) > MAX_LINE_BYTES:
                    yield self._too_long(raw)
                    continue
                if self._is_torn():
                    break
            if raw[0] == _MARK_BYTE and raw.startswith(codecs.BOM_UTF8):
                if self.number > 1:
                    yield BadLine(self.number, f"{MARK_WITHIN} the file", excerpt(raw))
                    continue
                raw = raw.removeprefix(codecs.BOM_UTF8)
            try:
                line = raw.decode() if plain else raw.decode(encoding)
            except UnicodeDecodeError as error:
                yield BadLine(self.number, self._undecoded(error, raw), excerpt(raw))
                continue
            if "\0" in line:
                yield BadLine(self.number, _of_nul(line), excerpt(line))
                continue
            yield line.rstrip("\r\n")
        if self._unpacked is not None:
            self.damage = _damage_in(self._unpacked)

    def _undecoded(self, error: UnicodeDecodeError, raw: bytes) -> str:
        return (
            f"byte {error.start + 1} (0x{raw[error.start]:02x}) is not {self._shown}: "
            "name the encoding of the file, such as `--encoding cp1252` or `latin-1`"
        )

    def _is_torn(self) -> bool:
        """Return whether a line without an end is the beginning of a damaged line."""
        of = self._unpacked
        return of is not None and bool(of.damage) and not of.whole

    def _read(self) -> bytes:
        try:
            raw = self._readline(MAX_LINE_BYTES + 1)
        except OSError as error:
            raise self._unavailable(error) from error
        self._given += len(raw)
        return raw

    def _unavailable(self, error: OSError) -> Unavailable:
        return Unavailable(f"{self.name}: reading failed after line {self.number}: {error}")

    def _too_long(self, start: bytes) -> BadLine:
        rest = start
        while rest and not rest.endswith(b"\n"):
            rest = self._read()
        self.ended = rest.endswith(b"\n")
        reason = f"the line is longer than {MAX_LINE_BYTES} bytes"
        return BadLine(self.number, reason, excerpt(start))

    def drain(self) -> None:
        """Read the rest without yielding it; then `damage` is known.

        It takes a second for some 300 MB of gzip text, and no memory.
        """
        try:
            while self._raw.some(_BUFFER_BYTES):
                pass
        except OSError as error:
            raise self._unavailable(error) from error
        if self._unpacked is not None:
            self.damage = _damage_in(self._unpacked)


def is_compressed(stream: ByteStream, name: str) -> bool:
    """Return whether a regular file is compressed; keep its position."""
    return looked_at(stream, name, lambda: compression_of(_Counted(stream).head) is not None)


def looked_at(stream: ByteStream, name: str, look: Callable[[], _Found]) -> _Found:
    """Return what a look at a regular file finds; keep its position."""
    try:
        start = stream.tell()
        found = look()
        stream.seek(start)
    except OSError as error:
        raise Unavailable(f"{name}: cannot be read: {error}") from error
    return found


def _of_nul(line: str) -> str:
    reason = f"character {line.index(chr(0)) + 1} is NUL, which a task cannot contain"
    if line.count("\0") > len(line) // 3:
        reason += "; UTF-16 text is read by `--encoding utf-16-le` or `utf-16-be`"
    return reason


def _damage_in(data: Unpacked) -> Damage | None:
    """Return the damage that ended decompressed data early, or None."""
    if data.damage is None:
        return None
    first, last = data.verified + 1, data.lines
    uncertain = (first, last) if first <= last else None
    reason = data.damage
    if uncertain is not None:
        reason += f"; no checksum vouches for lines {first:,} to {last:,}"
    return Damage(data.lines + 1, reason, "", uncertain)


class _Ahead(Some):
    """A stream whose first line can be seen before it is read. pending: what was seen."""

    def __init__(self, inner: Some) -> None:
        self.pending = b""
        self._inner = inner

    def first_line(self) -> bytes:
        """Return the first line with its LF, or else the first 64 KiB, or all."""
        while b"\n" not in self.pending and len(self.pending) < _FIRST_LINE_BYTES:
            more = self._inner.some(_FIRST_LINE_BYTES)
            if not more:
                break
            self.pending += more
        return self.pending[: self.pending.find(b"\n") + 1 or None]

    def is_all_without_lf(self, head: bytes) -> bool:
        """Return whether the first line has no LF, except as the last byte of the stream."""
        if not head.endswith(b"\n"):
            return True
        while len(self.pending) == len(head) and (more := self._inner.some(_FIRST_LINE_BYTES)):
            self.pending += more
        return len(self.pending) == len(head)

    def some(self, size: int) -> bytes:
        """Return at most so many bytes, none only at the end."""
        if not self.pending:
            return self._inner.some(size)
        data, self.pending = self.pending[:size], self.pending[size:]
        return data


class _AsUtf8(Some):
    """UTF-16 as UTF-8. What is neither becomes bytes that are no UTF-8, so that its line is bad."""

    def __init__(self, inner: Some, encoding: str) -> None:
        self._inner = inner
        self._decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")
        self._pending = b""
        self._ended = False

    def some(self, size: int) -> bytes:
        """Return at most so many bytes, none only at the end."""
        while not self._pending and not self._ended:
            data = self._inner.some(size)
            self._ended = not data
            try:
                text = self._decoder.decode(data, final=self._ended)
            except UnicodeDecodeError:  # half a character at the end
                self._pending = b"\xff"
            else:
                self._pending = text.encode("utf-8", "surrogatepass")
        data, self._pending = self._pending[:size], self._pending[size:]
        return data


class _FromCr(Some):
    """A stream whose lines end with CR, or CRLF, as one whose lines end with LF."""

    def __init__(self, inner: Some) -> None:
        self._inner = inner
        self._after_cr = False

    def some(self, size: int) -> bytes:
        """Return at most so many bytes, none only at the end."""
        while data := self._inner.some(size):
            skipped = data[1:] if self._after_cr and data[:1] == b"\n" else data
            self._after_cr = data.endswith(b"\r")
            if skipped:
                return skipped.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return b""


class _Counted(Some):
    """A stream that counts the bytes read from it and shows its first bytes beforehand."""

    def __init__(self, stream: ByteStream) -> None:
        self.count = 0
        self._stream = stream
        self._pending = b""
        head = b""
        while len(head) < HEAD_BYTES and (more := self.some(HEAD_BYTES - len(head))):
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
