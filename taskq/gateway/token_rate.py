"""The requests of each token, bounded at once and in the long run.

A token that asks without end, on any number of connections, takes a bounded share of what all
tokens share. Each count falls at the long-run rate, so a token that asks seldom never waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

#: Tokens that are counted; beyond that, those with the smallest counts are forgotten.
MOST_COUNTED: Final = 10_000


class TokenRate:
    """How often each token has asked lately.

    at_once: times that a token may ask at once. per_s: times a second in the long run. now: returns
    the time.
    """

    def __init__(
        self, at_once: int, per_s: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._at_once = at_once
        self._per_s = per_s
        self._now = now
        # By token: its count, and the time of that count.
        self._counts: dict[str, tuple[float, float]] = {}

    def __len__(self) -> int:
        """Return how many tokens are counted."""
        return len(self._counts)

    def wait_s(self, token: str) -> float:
        """Return the seconds after which a token may ask once more; 0: now."""
        excess = self._counted(token) - self._at_once
        return (excess + 1) / self._per_s if excess > -1 else 0.0

    def count(self, token: str) -> None:
        """Count that a token has asked, or will."""
        self._counts[token] = (self._counted(token) + 1, self._now())
        if len(self._counts) > MOST_COUNTED:
            self._counts = {
                name: self._counts[name]
                for name in sorted(self._counts, key=self._counted)[MOST_COUNTED // 2 :]
            }

    def forget(self, token: str) -> None:
        """Forget a token that turned out to be invalid."""
        self._counts.pop(token, None)

    def _counted(self, token: str) -> float:
        count, since = self._counts.get(token, (0.0, 0.0))
        return max(0.0, count - (self._now() - since) * self._per_s)
