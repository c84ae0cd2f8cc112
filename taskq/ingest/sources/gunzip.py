"""Streaming gzip decompression that returns all data before a damage, and how much is verified.

A member's checksum is at its end, so its data are verified only after all of it was read. Python's
`gzip` raises an error at a damage, so that a buffered reader loses the data before it. Here the
data end, and `damage` gives the reason.
"""

from __future__ import annotations

import io
import zlib
from abc import abstractmethod
from collections.abc import Callable
from typing import Final

MAGIC: Final = b"\x1f\x8b\x08"

_INPUT_BYTES: Final = 65_536
_OUTPUT_BYTES: Final = 1_048_576
_ANY_MEMBER: Final = 16 + zlib.MAX_WBITS  # zlib's code for gzip with a window of any size


class Some(io.RawIOBase):
    """A stream for reading, made of a method that returns some bytes, none only at the end."""

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # the only caller is BufferedReader, with a memoryview
        """Fill the buffer from its beginning; return how far, 0 only at the end."""
        data = self.some(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    @abstractmethod
    def some(self, size: int) -> bytes:
        """Return at most so many bytes, none only at the end."""


class Gunzip(Some):
    """The decompressed bytes of one gzip member after the other, to the end or to a damage.

    read1: returns at most so many compressed bytes, none only at their end.
    lines, given: line ends and bytes returned so far. verified: line ends covered by checksums.
    damage: the reason for an early end of the data. whole: whether all bytes returned are verified,
    so that only what follows is damaged.
    """

    def __init__(self, read1: Callable[[int], bytes]) -> None:
        self.lines = 0
        self.given = 0
        self.verified = 0
        self.damage: str | None = None
        self.whole = False
        self._read1 = read1
        self._input = b""
        self._member = zlib.decompressobj(_ANY_MEMBER)

    def some(self, size: int = _OUTPUT_BYTES) -> bytes:
        """Return at most so many bytes, none only at the end or at the damage."""
        data = b""
        while not data and self.damage is None:
            if self._member.eof and not self._next_member():
                break
            self._input = self._input or self._read1(_INPUT_BYTES)
            at_end = not self._input
            data = self._decompressed(size)
            if at_end and not data:
                self.damage = "the compressed data are cut off here: make or fetch the file again"
        self.lines += data.count(b"\n")
        self.given += len(data)
        return data

    def _decompressed(self, size: int) -> bytes:
        before = self._member.copy()
        try:
            data = self._member.decompress(self._input, size)
        except zlib.error as error:
            self.damage = f"the compressed data are damaged ({str(error).rpartition(': ')[2]})"
            return _before_damage(before, self._input)
        self._input = self._member.unconsumed_tail or self._member.unused_data
        return data

    def _next_member(self) -> bool:
        """Go to the next member, past the zeros that tapes insert; return whether there is one."""
        self.verified = self.lines
        head = self._input.lstrip(b"\0")
        while len(head) < len(MAGIC) and (more := self._read1(_INPUT_BYTES)):
            head = (head + more).lstrip(b"\0")
        self.whole = not head.startswith(MAGIC)
        if self.whole:
            if head:
                self.damage = "the compressed data end here, and something else follows"
            return False
        self._input = head
        self._member = zlib.decompressobj(_ANY_MEMBER)
        return True


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
