"""Bytes of unknown origin as lines of text, in bounded memory."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from typing import Final, Protocol

from taskq.errors import Unavailable, UsageError
from taskq.sources.records import BadLine, excerpt

MAX_LINE_BYTES: Final = 1_048_576

_BUFFER_BYTES: Final = 262_144
_GZIP_MAGIC: Final = b"\x1f\x8b\x08"


class ByteStream(Protocol):
    """The part of a buffered binary stream that reading lines needs."""

    def read(self, size: int, /) -> bytes:
        """Return that many bytes, fewer only at the end."""

    def read1(self, size: int, /) -> bytes:
        """Return at most that many bytes, nothing only at the end."""

    def fileno(self) -> int:
        """Return the descriptor; raise OSError if there is none."""

    def close(self) -> None:
        """Close the stream."""


class Lines:
    """The lines of a stream, plain or gzip, as text without line ends.

    Iterating yields a `BadLine` in place of a line that is not UTF-8, contains NUL or is
    longer than 1 MiB; a byte order mark and the CR of CRLF are dropped. It raises
    `UsageError` when the stream is damaged gzip or UTF-16 and `Unavailable` when it cannot
    be read on; every line before that point was yielded.
    """

    def __init__(self, stream: ByteStream, name: str) -> None:
        self.name = name
        self.number = 0
        self.ended = True  # whether the last line had a line end: false if the file was cut
        try:
            self._counted = _Counted(stream)
        except OSError as error:
            raise self._unavailable(error) from error
        plain = io.BufferedReader(self._counted, _BUFFER_BYTES)
        self._readline = plain.readline
        if self._counted.head == _GZIP_MAGIC:
            self._readline = io.BufferedReader(gzip.GzipFile(fileobj=plain), _BUFFER_BYTES).readline

    @property
    def bytes_read(self) -> int:
        """Return the bytes taken from the stream, before decompression."""
        return self._counted.count

    def __iter__(self) -> Iterator[str | BadLine]:
        while raw := self._read():
            self.number += 1
            if raw[-1] != 10:  # noqa: PLR2004  # a line feed
                self.ended = False
                if len(raw) > MAX_LINE_BYTES:
                    yield self._too_long(raw)
                    continue
            if self.number == 1:
                raw = self._without_mark(raw)
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

    def _read(self) -> bytes:
        try:
            return self._readline(MAX_LINE_BYTES + 1)
        except EOFError:
            raise UsageError(
                f"{self.name}: the compressed data stop early, after line {self.number}: "
                "the file was cut; make or fetch it again"
            ) from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise UsageError(
                f"{self.name}: the compressed data are damaged after line {self.number} ({error}); "
                "make or fetch the file again"
            ) from None
        except OSError as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: OSError) -> Unavailable:
        return Unavailable(f"{self.name}: cannot be read on after line {self.number}: {error}")

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


class _Counted(io.RawIOBase):
    """A stream that counts what is read from it and shows its first bytes beforehand."""

    def __init__(self, stream: ByteStream) -> None:
        self.count = 0
        self.head = stream.read(len(_GZIP_MAGIC))
        self._pending = self.head
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # the only caller is BufferedReader, with a memoryview
        data = self._pending or self._stream.read1(len(buffer))
        self._pending = b""
        buffer[: len(data)] = data
        self.count += len(data)
        return len(data)
