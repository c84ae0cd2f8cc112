"""Text from outside, cleaned for storage and display, and sizes and times in words."""

from __future__ import annotations

import re

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # control sequences (ECMA-48): colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # strings: window titles, links
    r"|\x1b[ -/]*[0-~]?"
)
_LINE_ENDS = re.compile(r"\r+\n?")
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def clean(text: str) -> str:
    """Return text without characters that a database or a terminal cannot handle.

    NUL, other control characters, terminal escapes and lone surrogates are removed. Carriage
    returns, with which programs redraw a line, become line ends.
    """
    return _CONTROLS.sub("", _ESCAPES.sub("", _LINE_ENDS.sub("\n", text)))


# An escaped NUL in JSON text, unless its backslash is itself escaped.
_NUL_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def has_nul_escape(json_text: str) -> bool:
    """Return whether JSON text escapes NUL, which PostgreSQL cannot store."""
    return "\\u0000" in json_text and _NUL_ESCAPE.search(json_text) is not None  # mostly the first


def is_unicode(text: str) -> bool:
    """Return whether text is valid Unicode: lone surrogates stand for bytes that were not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def in_bytes(size: float) -> str:
    """Return a number of bytes for people, such as `1.5 GiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:  # noqa: PLR2004  # of the unit below in one of the next
            return f"{size:.3g} {unit}" if size < 100 else f"{size:.0f} {unit}"  # noqa: PLR2004
        size /= 1024
    return f"{size:.3g} TiB"


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([KMGT]?)(?:i?B)?", re.IGNORECASE)
MAX_BYTES = 1 << 50


def size_in_bytes(word: str) -> int:
    """Return the bytes of a size such as 512M or 1.5T, in powers of 1024; ValueError if invalid."""
    found = _SIZE.fullmatch(word.strip())
    size = float(found.group(1)) * _UNITS[found.group(2).upper()] if found else 0
    if not 1 <= size <= MAX_BYTES:
        raise ValueError(f"{word!r:.80} is no size, as 512M, 4G or 1.5T")
    return int(size)


_UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}
_TIME = re.compile(r"([0-9.eE+-]+) ?(s|m|min|h|d|)")


def time_s(word: str) -> float:
    """Return the seconds of a time: a number, alone or with a unit, such as 90s, 30m, 2h or 7d.

    ValueError if it is no time.
    """
    found = _TIME.fullmatch(word.strip())
    if found is None:
        raise ValueError(f"{word!r} is no time, as 90s, 30m, 2h or 7d")
    return float(found.group(1)) * _UNITS_S[found.group(2)]
