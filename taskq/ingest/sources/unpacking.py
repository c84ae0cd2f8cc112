"""Streaming decompression that returns the data before a damage, and how much is verified.

A member's checksum is at its end, so its data are verified only after all of it was read. The
modules of Python raise an error at a damage, so that a buffered reader loses the data before it.
Here the data end, and `damage` gives the reason.
"""

from __future__ import annotations

import bz2
import importlib
import io
import lzma
import sys
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, Final, Protocol

from taskq.model.errors import ExtraMissing, UsageError

MAX_UNPACKING_BYTES: Final = 268_435_456
"""Most memory that the window of xz data may take."""
MAX_NAMED_MEMBERS: Final = 5
HEAD_BYTES: Final = 6
"""Length of a file's beginning that shows how it is compressed."""

_INPUT_BYTES: Final = 65_536
_OUTPUT_BYTES: Final = 1_048_576
_ANY_MEMBER: Final = 16 + zlib.MAX_WBITS  # zlib's code for gzip with a window of any size
_SKIPPABLE: Final = tuple(bytes([0x50 + i]) + b"\x2a\x4d\x18" for i in range(16))
_ZSTD: Final = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"


class Some(io.RawIOBase):
    """A stream for reading, made of a method that returns some bytes, none only at the end.

    given: bytes that `readinto` has returned.
    """

    given: int = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # the only caller is BufferedReader, with a memoryview
        """Fill the buffer from its beginning; return how far, 0 only at the end."""
        data = self.some(len(buffer))
        buffer[: len(data)] = data
        self.given += len(data)
        return len(data)

    @abstractmethod
    def some(self, size: int) -> bytes:
        """Return at most so many bytes, none only at the end."""


class _Member(Protocol):
    """A decompressor of Python's modules, for one member."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, size: int, /) -> bytes: ...


class _Damaged(Exception):
    """An error of a member; before: the data before the damage that no call has returned."""

    def __init__(self, reason: str, before: bytes) -> None:
        super().__init__(reason)
        self.before = before


class _GzipMember:
    """A member of gzip data, as `bz2` and `lzma` have theirs."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_ANY_MEMBER)
        self._pending = b""

    @property
    def eof(self) -> bool:
        return self._member.eof

    @property
    def needs_input(self) -> bool:
        return not self._pending

    @property
    def unused_data(self) -> bytes:
        return self._member.unused_data

    def decompress(self, data: bytes, size: int, /) -> bytes:
        before, data = self._member.copy(), self._pending + data
        try:
            found = self._member.decompress(data, size)
        except zlib.error as error:
            raise _Damaged(str(error).rpartition(": ")[2], _before_damage(before, data)) from None
        self._pending = self._member.unconsumed_tail
        return found


@dataclass(frozen=True, slots=True)
class Compression:
    """A kind of compressed data. magics: how its members begin. program: it unpacks to a pipe."""

    name: str
    suffix: str
    magics: tuple[bytes, ...]
    program: str
    begin: Callable[[], _Member] | None


def _zstd_member() -> _Member:
    member: _Member = importlib.import_module(_ZSTD).ZstdDecompressor()
    return member


KINDS: Final = (
    Compression("gzip", ".gz", (b"\x1f\x8b\x08",), "gzip -dc", _GzipMember),
    Compression(
        "bzip2",
        ".bz2",
        tuple(b"BZh%d1A" % i for i in range(1, 10)),
        "bzip2 -dc",
        bz2.BZ2Decompressor,
    ),
    Compression(
        "xz",
        ".xz",
        (b"\xfd7zXZ\0",),
        "xz -dc",
        lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_UNPACKING_BYTES),
    ),
    Compression("zstd", ".zst", (b"\x28\xb5\x2f\xfd", *_SKIPPABLE), "zstd -dc", _zstd_member),
    Compression("zip", ".zip", (b"PK\x03\x04", b"PK\x05\x06"), "unzip -p", None),
    Compression("compress", ".z", (b"\x1f\x9d",), "zcat", None),
    Compression("7-Zip", ".7z", (b"7z\xbc\xaf\x27\x1c",), "7z x -so", None),
)


def compression_of(head: bytes) -> Compression | None:
    """Return how data are compressed that begin so; None if they are not."""
    return next((kind for kind in KINDS if head.startswith(kind.magics)), None)


def unpacked(
    kind: Compression, read1: Callable[[int], bytes], stream: object, name: str
) -> Unpacked:
    """Return the data of a compressed stream.

    read1: returns at most so many of its bytes, none only at their end. stream: the same as a file,
    perhaps one with `seek`. Raise `UsageError`, which names the remedy, if it cannot be unpacked.
    """
    by_hand = f"`{kind.program} {name} | taskq seed CAMPAIGN - --format FORMAT`"
    if kind.name == "zip":
        return _Unzipped(stream, name)
    if kind.begin is None:
        raise UsageError(f"{name} is compressed by {kind.name}: unpack it, such as by {by_hand}")
    try:
        return _Members(kind, kind.begin, read1)
    except ImportError:
        what = f"{name} is compressed by {kind.name}"
        raise ExtraMissing(what, "zstd", f"unpack it, such as by {by_hand}") from None


class Unpacked(Some):
    """The data of a compressed stream, to the end or to a damage.

    lines: line ends returned so far. verified: line ends covered by checksums. damage: the reason
    for an early end of the data. whole: whether all bytes returned are verified, so that only what
    follows is damaged. line_end: what ends a line. taken: bytes of the file that were unpacked;
    None if the caller has read them.
    """

    line_end: bytes = b"\n"
    taken: int | None = None

    def __init__(self) -> None:
        self.lines = 0
        self.verified = 0
        self.damage: str | None = None
        self.whole = False

    def some(self, size: int = _OUTPUT_BYTES) -> bytes:
        """Return at most so many bytes, none only at the end or at the damage."""
        data = self._data(size)
        self.lines += data.count(self.line_end)
        return data

    @abstractmethod
    def _data(self, size: int) -> bytes: ...


class _Members(Unpacked):
    """One member after the other."""

    def __init__(
        self, kind: Compression, begin: Callable[[], _Member], read1: Callable[[int], bytes]
    ) -> None:
        super().__init__()
        self._kind = kind
        self._begin = begin
        self._member = begin()
        self._read1 = read1
        self._input = b""

    def _data(self, size: int) -> bytes:
        data = b""
        while not data and self.damage is None:
            if self._member.eof and not self._next_member():
                break
            if self._member.needs_input and not self._input:
                self._input = self._read1(_INPUT_BYTES)
                if not self._input:
                    data = self._decompressed(size)
                    if not data and not self._member.eof:
                        self.damage = (
                            "the compressed data are cut off here: make or fetch the file again"
                        )
                    continue
            data = self._decompressed(size)
        return data

    def _decompressed(self, size: int) -> bytes:
        given, self._input = self._input, b""
        try:
            return self._member.decompress(given, size)
        except _Damaged as error:
            self.damage = f"the compressed data are damaged ({error})"
            return error.before
        except Exception as error:  # noqa: BLE001  # each module has its own, that of zstd perhaps none here
            self.damage = f"the compressed data are damaged ({error})"
            if "memory" in str(error).lower():
                self.damage = (
                    f"unpacking needs more memory than is allowed ({error}): "
                    f"unpack the file by `{self._kind.program}`, perhaps into a pipe"
                )
            return b""

    def _next_member(self) -> bool:
        """Go to the next member, past the zeros that tapes insert; return whether there is one."""
        self.verified = self.lines
        head = (self._member.unused_data + self._input).lstrip(b"\0")
        while len(head) < HEAD_BYTES and (more := self._read1(_INPUT_BYTES)):
            head = (head + more).lstrip(b"\0")
        self.whole = not head.startswith(self._kind.magics)
        if self.whole:
            if head:
                self.damage = "the compressed data end here, and something else follows"
            return False
        self._input = head
        self._member = self._begin()
        return True


class _Unzipped(Unpacked):
    """The only member of a zip file."""

    def __init__(self, stream: Any, name: str) -> None:
        super().__init__()
        by_hand = f"`unzip -p {name} MEMBER | taskq seed CAMPAIGN - --format FORMAT`"
        if not stream.seekable():
            raise UsageError(f"{name} is a zip file, which cannot be read from a pipe: {by_hand}")
        stream.seek(0)
        self._stream = stream
        try:
            archive = zipfile.ZipFile(stream)
            members = [member for member in archive.infolist() if _is_content(member)]
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise UsageError(
                f"{name} is a damaged zip file ({error}): make or fetch it again"
            ) from None
        if len(members) != 1:
            names = [ascii(member.filename)[1:-1] for member in members]
            some = ", ".join(names[:MAX_NAMED_MEMBERS]) + ", ..." * (len(names) > MAX_NAMED_MEMBERS)
            raise UsageError(
                f"{name} is a zip file with {len(names)} files ({some or 'none'}), and only one "
                f"can be read: choose, such as by {by_hand}"
            )
        try:
            self._member: IO[bytes] = archive.open(members[0])
        except (RuntimeError, zipfile.BadZipFile, NotImplementedError) as error:
            raise UsageError(
                f"{name} cannot be unpacked ({error}): unpack it, such as by {by_hand}"
            ) from None

    def _data(self, size: int) -> bytes:
        if self.damage is not None:
            return b""
        try:
            data = self._member.read(size)
            self.taken = self._stream.seek(0, io.SEEK_CUR if data else io.SEEK_END)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, lzma.LZMAError) as error:
            self.damage = f"the compressed data are damaged ({error})"
            return b""
        if not data:
            self.verified, self.whole = self.lines, True
        return data


def _is_content(member: zipfile.ZipInfo) -> bool:
    """Return whether a member of a zip file is not a folder, nor what a Mac adds."""
    return not member.is_dir() and not member.filename.startswith("__MACOSX/")


def _before_damage(member: zlib._Decompress, data: bytes) -> bytes:
    """Return the decompressed data before a damage in compressed data.

    zlib keeps back the output of the call that fails. So the calls shrink, down to one byte of
    input, and then to one byte of output at a time.
    """
    found = []
    step = len(data)
    while step:
        trial = member.copy()
        try:
            found.append(trial.decompress(data[:step]))
        except zlib.error:
            step //= 2
        else:
            member, data = trial, data[step:]
    try:
        rest = data[:1]
        while byte := member.decompress(rest, 1):
            found.append(byte)
            rest = member.unconsumed_tail
    except zlib.error:
        pass
    return b"".join(found)
