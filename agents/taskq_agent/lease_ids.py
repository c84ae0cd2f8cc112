"""Lease ids, drawn by the agents that claim."""

from __future__ import annotations

import os
import time
from typing import Callable, Optional


def new_lease(now_ms: Optional[int] = None) -> str:
    """Draw a lease id: a version 7 UUID (RFC 9562), 74 random bits after a timestamp.

    The leading time keeps the ids of one period together in the index; the random part makes it
    unique.
    """
    millis = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    value = (millis & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 7 << 76
    value = value & ~(0x3 << 62) | 2 << 62
    digits = f"{value:032x}"  # as uuid.UUID writes it, which takes four times as long
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


class LeaseIds:
    """Draws increasing lease ids, which heartbeats need, whatever the clock does."""

    def __init__(self, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._clock_ns = clock_ns
        self._last_ms = 0

    def __call__(self) -> str:
        """Draw the next id."""
        self._last_ms = max(self._last_ms + 1, self._clock_ns() // 1_000_000)
        return new_lease(self._last_ms)
