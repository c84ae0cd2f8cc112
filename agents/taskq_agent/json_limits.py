"""Limits of JSON, checked on its bytes before anything reads or expands it.

PostgreSQL keeps `1e131000` in a few bytes and writes 131,001 digits; Python reads at most 4,300. So
a size counts with all numbers written out, and the digits of each are limited. Any double can be
written. `json_fault.sql` checks the same for JSON sent to PostgreSQL directly.
"""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Dict, Optional, Union

Hook = Callable[[Dict[str, Any]], Any]

# An escaped NUL in JSON text, unless its backslash is itself escaped.
_NUL_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")

MAX_DIGITS = 350
MAX_READ_BYTES = 64 << 20

# Digits as 0, exponents as e, without points and signs, for tests that take a fraction of a
# microsecond.
_SHAPE = bytes(
    ord("0") if chr(code) in "0123456789" else ord("e") if chr(code) in "eE" else code
    for code in range(256)
)
_LONG = b"0" * (MAX_DIGITS + 1)
_MOST_READ_DIGITS = 4_300
#: Writing out numbers lengthens a text by this factor at most, if exponents have two digits.
_SHORT_GROWTH = 21
_EXPONENT = re.compile(rb"[eE][-+]?0*([0-9]+)")
_LARGE = 1_000_000
_AS_ARRAYS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))


def loads(text: Union[bytes, bytearray], hook: Optional[Hook] = None) -> Any:
    """Return the value of JSON text from outside, as `json.loads`; ValueError if it is not JSON.

    Whole numbers have at most as many digits as Python reads by default. Older Pythons, and all
    with `PYTHONINTMAXSTRDIGITS=0`, would take hours for a long one, and run nothing else meanwhile.
    """
    if _LONG in text.translate(_SHAPE, b".+-"):
        return json.loads(text, object_hook=hook, parse_int=_whole)
    return json.loads(text, object_hook=hook)


def _whole(digits: str) -> int:
    if len(digits) > _MOST_READ_DIGITS:
        raise ValueError(f"a whole number of {len(digits)} digits")
    return int(digits)


def has_nul_escape(json_text: str) -> bool:
    """Return whether JSON text escapes NUL, which PostgreSQL cannot store."""
    # Mostly the first test is enough.
    return "\\u0000" in json_text and _NUL_ESCAPE.search(json_text) is not None


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
