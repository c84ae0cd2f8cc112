"""Formatting of instants, durations and untrusted text for a terminal."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from datetime import datetime, timezone
from typing import Final

MINUTE_S: Final = 60
HOUR_S: Final = 3_600
DAY_S: Final = 86_400

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


def instant(at: datetime | None) -> str:
    """Return an instant in ISO 8601, UTC, to the second."""
    return "" if at is None else f"{at.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


def duration(seconds: float) -> str:
    """Return a duration in two units at most: `4.2 s`, `3 min 12 s`, `5 h 10 min`, `2 d 3 h`."""
    if seconds < MINUTE_S:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"  # noqa: PLR2004  # two digits
    whole = round(seconds)
    for unit_s, unit, part_s, part in (
        (DAY_S, "d", HOUR_S, "h"),
        (HOUR_S, "h", MINUTE_S, "min"),
        (MINUTE_S, "min", 1, "s"),
    ):
        if whole >= unit_s:
            rest = whole % unit_s // part_s
            return f"{whole // unit_s} {unit}" + (f" {rest} {part}" if rest else "")
    return f"{whole} s"


def rate(per_second: float) -> str:
    """Return a rate in the unit that makes it readable: `1,200/s`, `0.85/s`, `12/min`, `3/h`."""
    if not per_second:
        return "0/s"
    for value, unit in (
        (per_second, "s"),
        (per_second * MINUTE_S, "min"),
        (per_second * HOUR_S, "h"),
    ):
        if value >= 0.5 or unit == "h":  # noqa: PLR2004  # below, the next unit reads better
            return f"{value:,.0f}/{unit}" if value >= 10 else f"{value:.2g}/{unit}"  # noqa: PLR2004  # two digits
    raise AssertionError("unreachable: the last unit takes every value")


def counted(number: int, thing: str) -> str:
    """Return a number with its noun: `1 task`, `1,234 tasks`."""
    if number == 1:
        return f"1 {thing}"
    return f"{number:,} {thing}{'es' if thing.endswith('s') else 's'}"


def most_common(counts: Counter[str], shown: int) -> str:
    """Return the most frequent names with their counts, and how many there are besides."""
    named = [f"{one_line(name) or '(none)'} ({n:,})" for name, n in counts.most_common(shown)]
    more = len(counts) - len(named)
    return f"{', '.join(named)}{f' and {more:,} more' if more else ''}"
