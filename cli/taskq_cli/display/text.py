"""Formatting of rates and untrusted text for a terminal."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from typing import Final

_LINE_END: Final = re.compile(r"\s*\n\s*")
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
    return _LINE_END.sub(" ", printable(text).strip("\n")).replace("\t", " ")


def safe_json(text: str) -> str:
    """Return equivalent JSON with characters that a terminal may interpret escaped."""
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def most_common(counts: Counter[str], shown: int) -> str:
    """Return the most frequent names with their counts, and how many there are besides."""
    named = [f"{one_line(name) or '(none)'} ({n:,})" for name, n in counts.most_common(shown)]
    more = len(counts) - len(named)
    return f"{', '.join(named)}{f' and {more:,} more' if more else ''}"
