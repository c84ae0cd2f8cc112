"""A filter of logs: a few records of a kind in a minute."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

PERIOD_S: Final = 60.0
MOST: Final = 3


class Seldom(logging.Filter):
    """Lets `MOST` records of a kind pass in a minute; the kind is the text without arguments.

    The first record of a kind after that says how many were left out.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._began_at = float("-inf")
        self._seen: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written."""
        now = self._clock()
        if now - self._began_at >= PERIOD_S:
            self._began_at = now
            self._seen.clear()
        kind = str(record.msg)
        self._seen[kind] += 1
        if self._seen[kind] > MOST:
            self._left_out[kind] += 1
            return False
        if left_out := self._left_out.pop(kind, 0):
            record.msg = f"{kind} (and {left_out} more like this before)"
        return True
