"""Untrusted text, made safe for a terminal."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import BinaryIO, Final

# Characters that JSON allows unescaped in a string but a terminal may interpret: control characters
# beyond ASCII, and invisible ones or those that change the direction (https://trojansource.codes).
_UNSAFE_IN_JSON: Final = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


def printable(text: str) -> str:
    """Return text with characters that a terminal may interpret escaped in hexadecimal.

    Line ends, tabs and spaces of all kinds stay.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" or unicodedata.category(c) == "Zs" else ascii(c)[1:-1]
        for c in text
    )


def one_line(text: str) -> str:
    """Return printable text with line ends, and the white space around them, as one space."""
    first, *others = printable(text).strip("\n").split("\n")
    if others:
        inner = (line.strip() for line in others[:-1])
        first = " ".join([first.rstrip(), *filter(None, inner), others[-1].lstrip()])
    return first.replace("\t", " ")


def safe_json(text: str) -> str:
    """Return equivalent JSON with characters that a terminal may interpret escaped."""
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def most_common(counts: Counter[str], shown: int) -> str:
    """Return the most frequent names with their counts, and how many others there are."""
    named = [f"{one_line(name) or '(none)'} ({n:,})" for name, n in counts.most_common(shown)]
    more = len(counts) - len(named)
    return f"{', '.join(named)}{f' and {more:,} more' if more else ''}"


class SafeStream:
    """The stream methods that `taskq.files.destination` uses; writes UTF-8 as printable text."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def write(self, data: bytes) -> int:
        """Write bytes."""
        self._stream.write(printable(self._decode(data)).encode())
        return len(data)

    def writelines(self, lines: Iterable[bytes]) -> None:
        """Write lines."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush."""
        self._stream.flush()

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._stream.fileno()
