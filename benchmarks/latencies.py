"""Latencies as counts in buckets: small, addable between processes, within 2.2 % of the truth.

The buckets grow by a constant factor, as in HdrHistogram (G. Tene), so that microseconds and
minutes have the same relative precision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

PER_OCTAVE: Final = 32
LEAST_S: Final = 1e-5
BUCKETS: Final = 24 * PER_OCTAVE
"""Up to 167 s; what takes longer is in the last one."""


def bucket(seconds: float) -> int:
    """Return the number of the bucket of a latency."""
    if seconds <= LEAST_S:
        return 0
    return min(int(math.log2(seconds / LEAST_S) * PER_OCTAVE), BUCKETS - 1)


def quantile_s(counts: Sequence[int], share: float) -> float:
    """Return the latency that a share of all stays within: the upper end of its bucket.

    NaN if there are none. counts: by bucket. share: 0 to 1.
    """
    total = sum(counts)
    if not total:
        return math.nan
    left = share * total
    for number, count in enumerate(counts):
        left -= count
        if count and left <= 0:
            return _upper_s(number)
    return _upper_s(BUCKETS - 1)


def share_within(counts: Sequence[int], seconds: float) -> float:
    """Return the share of all that took no longer, as far as the buckets tell; NaN if none are."""
    total = sum(counts)
    return sum(counts[: bucket(seconds) + 1]) / total if total else math.nan


def _upper_s(number: int) -> float:
    return float(LEAST_S * 2 ** ((number + 1) / PER_OCTAVE))
