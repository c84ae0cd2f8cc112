"""Sorting on disk: numbers and lines in their order, however many there are."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq.model.errors import UsageError
from taskq.results.group_ranking import LineSorter, sort_key
from taskq.results.ranking import MOST, Best

NUMBERS = st.decimals(allow_nan=False, allow_infinity=False)


@pytest.mark.thorough
@given(st.lists(NUMBERS, max_size=20))
def test_keys_are_in_the_order_of_the_numbers(numbers: list[Decimal]) -> None:
    """Also as the beginning of lines that go on with a space; equal numbers have one key."""
    lines = sorted(numbers, key=lambda number: f"{sort_key(number)} ")
    assert lines == sorted(numbers, key=lambda number: (number, f"{sort_key(number)} "))
    for number in numbers:
        for other in numbers:
            assert (sort_key(number) == sort_key(other)) == (number == other)


@pytest.mark.parametrize("run_lines", [1, 2, 3, 100])
def test_lines_come_back_in_order(run_lines: int) -> None:
    """From memory and from any number of files."""
    sorter = LineSorter(run_lines)
    lines = [f"{n * 7 % 11:x} {'a' * (n % 3)}" for n in range(50)]
    for line in lines:
        sorter.add(line)
    assert list(sorter.sorted()) == sorted(lines)
    sorter.close()


def test_share_is_rounded_up() -> None:
    """Exactly, as it is written in decimals; so that one of few is chosen as well."""
    for percent, ranked, chosen in (
        (1, 100, 1),
        (1, 101, 2),
        (1, 1, 1),
        (0.1, 1000, 1),
        (0.7, 1000, 7),
        (100, 7, 7),
        (1, 0, 0),
    ):
        assert Best("result.a", percent=percent).number(ranked) == chosen
    assert Best("result.a", n=5).number(3) == 3
    with pytest.raises(UsageError, match="at most"):
        Best("result.a", percent=50).number(3 * MOST)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"n": 1, "percent": 1},
        {"n": 0},
        {"n": True},
        {"n": MOST + 1},
        {"percent": 0},
        {"percent": 101},
        {"percent": float("nan")},
        {"n": 1, "by": ""},
        {"n": 1, "group": ""},
        {"n": 1, "group": "agent"},
    ],
    ids=str,
)
def test_impossible_choice_is_refused_before_anything_is_read(wrong: dict[str, object]) -> None:
    """Before anything is read."""
    with pytest.raises(UsageError):
        Best(**{"by": "result.a", **wrong})  # type: ignore[arg-type]
