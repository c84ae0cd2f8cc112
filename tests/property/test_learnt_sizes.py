"""Sizes of memory that follow from what attempts have used, whatever that was."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.helpers.postgres import Postgres, value

MEBI, PEBI = 1 << 20, 1 << 50
PEAK = st.integers(1, PEBI) | st.integers(MEBI, 1 << 36)


def test_learnt_sizes_suffice_for_what_was_seen_and_are_bounded(postgres: Postgres) -> None:
    """The first for 95 %, another for all; none is larger than it has to be."""

    @settings(max_examples=100, deadline=None)
    @given(st.lists(PEAK, min_size=100, max_size=300))
    @example([PEBI] * 100)
    @example([1] * 100)
    @example([MEBI] * 95 + [1 << 36] * 5)
    def hold(peaks: list[int]) -> None:
        sizes = value(postgres, "select taskq.learnt_sizes(%s)", peaks)
        ordered = sorted(peaks)
        usual = ordered[-(-95 * len(peaks) // 100) - 1]
        assert 1 <= len(sizes) <= 4
        assert all(before < after for before, after in pairwise(sizes))
        assert 64 * MEBI <= sizes[0] <= sizes[-1] <= PEBI
        assert sum(peak <= sizes[0] for peak in peaks) >= 0.95 * len(peaks)
        assert sizes[0] <= max(64 * MEBI, 1.1 * usual * 1.125 + 1)
        assert any(
            ordered[-1] <= size <= max(64 * MEBI, 1.1 * ordered[-1] * 1.125 + 1) for size in sizes
        )
        assert sizes[-1] >= min(PEBI, 4.4 * ordered[-1])

    hold()


def test_few_peaks_teach_nothing(postgres: Postgres) -> None:
    """The first tasks are often the small ones."""
    for count in (0, 1, 99):
        peaks = [1 << 30] * count
        assert value(postgres, "select taskq.learnt_sizes(%s::bigint[])", peaks) is None
    assert value(postgres, "select taskq.learnt_sizes(null)") is None
