"""Latencies kept as counts have the precision that is promised."""

from __future__ import annotations

import math
import random

import pytest

from benchmarks.latencies import BUCKETS, LEAST_S, bucket, quantile_s, share_within


def counted(latencies: list[float]) -> list[int]:
    counts = [0] * BUCKETS
    for latency_s in latencies:
        counts[bucket(latency_s)] += 1
    return counts


@pytest.mark.parametrize("share", [0.5, 0.99, 1.0])
def test_quantile_is_at_most_a_bucket_above_the_truth(share: float) -> None:
    """Never below it, and within 2.2 % of it."""
    latencies = sorted(10 ** random.uniform(-4.5, 2) for _ in range(2_000))
    truth = latencies[math.ceil(share * len(latencies)) - 1]
    assert truth <= quantile_s(counted(latencies), share) <= 1.022 * truth


def test_whatever_is_measured_has_a_bucket() -> None:
    """Clocks may stand still, and answers may take for ever."""
    assert bucket(0.0) == bucket(-1.0) == bucket(LEAST_S) == 0
    assert bucket(1e9) == BUCKETS - 1


def test_of_nothing_there_is_no_quantile() -> None:
    """A zero would look like a very good one."""
    assert math.isnan(quantile_s([0] * BUCKETS, 0.5))


def test_share_within_a_time_counts_the_bucket_that_holds_it() -> None:
    """Whatever took no longer is in it."""
    counts = counted([0.001] * 3 + [0.1] * 2 + [5.0] * 5)
    assert share_within(counts, 0.1) == 0.5
    assert share_within(counts, 60.0) == 1.0
    assert math.isnan(share_within([0] * BUCKETS, 0.1))
