"""Sizes and times in words: `512M`, `1.5 GiB`, `90s`, `2h`."""

from __future__ import annotations

import re

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([KMGT]?)(?:i?B)?", re.IGNORECASE)
MAX_BYTES = 1 << 50

_UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}
_TIME = re.compile(r"([0-9.eE+-]+) ?(s|m|min|h|d|)")


def in_bytes(size: float) -> str:
    """Return a number of bytes for people, such as `1.5 GiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:  # noqa: PLR2004  # of the unit below in one of the next
            return f"{size:.3g} {unit}" if size < 100 else f"{size:.0f} {unit}"  # noqa: PLR2004
        size /= 1024
    return f"{size:.3g} TiB"


def size_in_bytes(word: str) -> int:
    """Return the bytes of a size such as 512M or 1.5T, in powers of 1024; ValueError if invalid."""
    found = _SIZE.fullmatch(word.strip())
    size = float(found.group(1)) * _UNITS[found.group(2).upper()] if found else 0
    if not 1 <= size <= MAX_BYTES:
        raise ValueError(f"{word!r:.80} is not a size, such as 512M, 4G or 1.5T")
    return int(size)


def time_s(word: str) -> float:
    """Return the seconds of a time: a number, alone or with a unit, such as 90s, 30m, 2h or 7d.

    ValueError if it is not a time.
    """
    found = _TIME.fullmatch(word.strip())
    if found is None:
        raise ValueError(f"{word!r} is not a time, such as 90s, 30m, 2h or 7d")
    return float(found.group(1)) * _UNITS_S[found.group(2)]
