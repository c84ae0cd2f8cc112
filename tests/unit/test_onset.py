"""Since when ends are as they are."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

import pytest

from taskq.diagnosis.onset import Numbers, Window, onset, step, step_among

NOON = datetime(2026, 11, 29, 12, tzinfo=timezone.utc)
MINUTES = timedelta(minutes=10)


def windows(parts: Sequence[int], whole: int = 100) -> list[Window]:
    """Return times of ten minutes from noon on; each first end comes a minute after it begins."""
    return [
        Window(at, part, whole, at + MINUTES / 10 if part else None, 10 * number if part else None)
        for number, part in enumerate(parts)
        for at in (NOON + number * MINUTES,)
    ]


@pytest.mark.parametrize(
    ("parts", "begins", "is_new"),
    [
        ([0, 0, 0, 30, 35, 28], 3, True),
        ([1, 0, 2, 90, 95, 99], 3, True),
        ([0, 0, 0, 40, 90, 95], 3, True),  # it began in the middle of a time
        ([40, 90, 95], 0, True),
        ([30, 32, 28, 31], 0, False),  # from the first on
        ([0, 1, 0, 0], 1, False),
        ([90, 0, 0, 80, 85], 3, True),  # it had gone, and came again
    ],
)
def test_share_has_moved_at_a_time(parts: Sequence[int], begins: int, is_new: bool) -> None:
    """The first end of that time is the instant; whatever the order of the windows."""
    some = windows(parts)
    random.Random(1).shuffle(some)
    found = onset(some)
    assert found is not None
    assert found.since == NOON + begins * MINUTES + MINUTES / 10
    assert found.first_task == 10 * begins
    assert found.is_new == is_new


def test_nothing_that_ended_so_has_begun() -> None:
    """Also where nothing has ended."""
    assert onset([]) is None
    assert onset(windows([0, 0])) is None
    assert onset([Window(NOON, 0, 0)]) is None


def means(values: Sequence[float], number: int = 50, variance: float = 0.04) -> list[Numbers]:
    """Return means of times from noon on."""
    return [
        Numbers(NOON + place * MINUTES, number, mean, variance) for place, mean in enumerate(values)
    ]


def test_mean_that_moves_at_a_time_is_a_step() -> None:
    """With both means, and when it moved."""
    found = step(means([1.0, 1.1, 0.95, 1.05, 3.0, 3.1, 2.9]))
    assert found is not None
    assert found.since == NOON + 4 * MINUTES
    assert found.before == pytest.approx(1.025)
    assert found.after == pytest.approx(3.0)
    assert found.attempts == 150


@pytest.mark.parametrize(
    "values",
    [
        [float(number) for number in range(40)],  # sorted by size
        [1.0, 1.0, 1.0, 5.0],  # one time is no other state
        [1.0, 1.0, 5.0, 5.0, 5.0],
        [1.0, 5.0] * 10,
        [1.0] * 10,
        [],
    ],
)
def test_mean_that_grows_or_varies_is_no_step(values: Sequence[float]) -> None:
    """Tasks in an order, and what is not like itself either."""
    assert step(means(values)) is None


def test_means_of_few_numbers_and_of_the_beginning_show_nothing() -> None:
    """Short attempts end first; so the first means are small where nothing has changed."""
    assert step(means([1.0, 1.1, 0.95, 3.0, 3.1, 2.9], number=5)) is None
    beginning = means([1.0, 1.1, 0.95, 3.0, 3.1, 2.9, 3.0])
    assert step(beginning) is not None
    assert step(beginning, settled=3 * MINUTES) is None


def test_honest_shares_and_means_move_by_chance_only_rarely() -> None:
    """Of a thousand honest histories hardly any shows a change."""
    draw = random.Random(7)
    moved = steps = 0
    for _ in range(500):
        parts = [sum(draw.random() < 0.05 for _ in range(100)) for _ in range(24)]
        found = onset(windows(parts))
        moved += found is not None and found.is_new
        values = [draw.gauss(1, 0.2 / 50**0.5) for _ in range(24)]
        steps += step(means(values)) is not None
    assert moved <= 5
    assert steps == 0


def one_by_one(values: Sequence[float]) -> list[tuple[datetime, float]]:
    """Return numbers that came a second apart."""
    return [(NOON + number * timedelta(seconds=1), value) for number, value in enumerate(values)]


@pytest.mark.parametrize("factor", [8.0, 1 / 8])
def test_step_is_seen_among_few_numbers_though_tasks_differ(factor: float) -> None:
    """Thirty before and twenty after suffice; whatever the order in which they are read."""
    draw = random.Random(4)
    values = [math.log(0.3 + 0.1 * draw.randrange(6)) for _ in range(50)]
    values = [it + math.log(factor) * (place >= 30) for place, it in enumerate(values)]
    known = one_by_one(values)
    draw.shuffle(known)
    found = step_among(known)
    assert found is not None
    assert found.since == NOON + timedelta(seconds=30)
    assert found.after - found.before == pytest.approx(math.log(factor), abs=0.3)


@pytest.mark.thorough
@pytest.mark.parametrize("number", [40, 80, 300, 1_000])
def test_numbers_that_vary_or_grow_are_no_step(number: int) -> None:
    """Alike, sorted by size, and listed in many small groups: none of a hundred is."""
    draw = random.Random(number)
    found = 0
    for seed in range(100):
        alike = [draw.gauss(-7, 1) for _ in range(number)]
        by_size = [-10 * place / number + it for place, it in enumerate(alike)]
        groups = [random.Random(seed + place // 9).gauss(0, 5) for place in range(number)]
        for values in (alike, by_size, [a + b for a, b in zip(alike, groups, strict=True)]):
            found += step_among(one_by_one(values)) is not None
    assert found == 0


def test_too_few_numbers_show_no_step() -> None:
    """A campaign that has just begun has no usual state."""
    assert step_among([]) is None
    assert step_among(one_by_one([1.0] * 15 + [9.0] * 30)) is None
    assert step_among(one_by_one([1.0] * 30 + [9.0] * 10)) is None
