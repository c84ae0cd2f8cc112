"""Text from outside: cleaned for storage and display, limits of JSON, sizes and times in words.

The limits of JSON are checked on its bytes before anything reads or expands it. PostgreSQL keeps
`1e131000` in a few bytes and writes 131,001 digits; Python reads at most 4,300. So a size counts
with all numbers written out, and the digits of each are limited. Any double can be written.
`sql/functions/json_fault.sql` checks the same for JSON sent to PostgreSQL directly.
"""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Optional

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
    return (
        "\\u0000" in json_text and _NUL_ESCAPE.search(json_text) is not None
    )  # mostly the first test is enough


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
        raise ValueError(f"{word!r:.80} is not a size, such as 512M, 4G or 1.5T")
    return int(size)


_UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}
_TIME = re.compile(r"([0-9.eE+-]+) ?(s|m|min|h|d|)")


def time_s(word: str) -> float:
    """Return the seconds of a time: a number, alone or with a unit, such as 90s, 30m, 2h or 7d.

    ValueError if it is not a time.
    """
    found = _TIME.fullmatch(word.strip())
    if found is None:
        raise ValueError(f"{word!r} is not a time, such as 90s, 30m, 2h or 7d")
    return float(found.group(1)) * _UNITS_S[found.group(2)]


MAX_DIGITS = 350
MAX_READ_BYTES = 64 << 20


# Digits as 0, exponents as e, without points and signs, for tests that take a fraction of a
# microsecond.
_SHAPE = bytes(
    ord("0") if chr(one) in "0123456789" else ord("e") if chr(one) in "eE" else one
    for one in range(256)
)
_LONG = b"0" * (MAX_DIGITS + 1)
#: Writing out numbers lengthens a text by this factor at most, if exponents have two digits.
_SHORT_GROWTH = 21
_EXPONENT = re.compile(rb"[eE][-+]?0*([0-9]+)")
_LARGE = 1_000_000
_AS_ARRAYS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))


def json_fault(text: bytes, *, most: int, deep: int) -> Optional[str]:
    """Return how JSON text exceeds its limits, such as "of 7 bytes; 5 at most", or None.

    The text need not be JSON.

    most: bytes, with numbers written out. deep: nesting of objects and arrays.
    """
    if len(text) > most:
        return f"of {len(text)} bytes; {most} at most"
    return number_fault(text, most) or depth_fault(text, deep)


def number_fault(text: bytes, most: int) -> Optional[str]:
    """Return what is wrong with the numbers of a text: their digits, or their size written out."""
    shape = text.translate(_SHAPE, b".+-")
    suspect = b"0e0" if len(text) * _SHORT_GROWTH > most else b"0e000"
    if suspect not in shape and _LONG not in shape:
        return None
    # Each step takes time in proportion to the text, whatever the text holds.
    bare = _without_strings(text)
    shape = bare.translate(_SHAPE, b".+-")
    begin = shape.find(_LONG)
    if begin >= 0:
        digits = len(shape) - begin - len(shape[begin:].lstrip(b"0"))
        return f"with a number of {digits} digits; {MAX_DIGITS} at most"
    size = len(text)
    for found in _EXPONENT.findall(bare):
        places = int(found) if len(found) < len(str(_LARGE)) else _LARGE
        if places > MAX_DIGITS:
            many = places if places < _LARGE else "millions of"
            return f"with a number of {many} digits, written out; {MAX_DIGITS} at most"
        size += places
    return f"of {size} bytes with numbers written out; {most} at most" if size > most else None


def depth_fault(text: bytes, deep: int) -> Optional[str]:
    """Return a message if a text is nested too deep; else None."""
    if text.count(b"{") + text.count(b"[") <= deep:
        return None
    brackets = _without_strings(text).translate(_AS_ARRAYS, _NO_BRACKET)
    for _ in range(deep):
        if not brackets:
            return None
        brackets = brackets.replace(b"[]", b"")  # the innermost ones
    return f"nested more than {deep} deep" if brackets else None


def _without_strings(text: bytes) -> bytes:
    # Without escapes, each quote begins or ends a string.
    bare = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b'"'.join(bare.split(b'"')[::2])


def json_encoder(
    *, ensure_ascii: bool = True, default: Optional[Callable[[Any], Any]] = None, **layout: Any
) -> Callable[[Any], str]:
    """Return an equivalent of `JSONEncoder(...).encode` that takes half of its time on CPython.

    `encode` makes an encoder in C for each value. A circular value raises RecursionError, so the
    check for it is not needed.
    """
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii,
        check_circular=False,
        allow_nan=False,
        default=default,
        **layout,
    )
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return encoder.encode
    pieces = make(
        None,
        encoder.default,
        json.encoder.encode_basestring_ascii if ensure_ascii else json.encoder.encode_basestring,
        None,
        encoder.key_separator,
        encoder.item_separator,
        encoder.sort_keys,
        encoder.skipkeys,
        False,
    )
    return lambda value: "".join(pieces(value, 0))
