"""What is told of a trend: its rates, and when nothing is left."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from taskq.diagnosis.trend import Point, intervals, make_pace, recent_pace

NOW = datetime(2026, 6, 1, tzinfo=timezone.utc)


def point(minutes_ago: float, ended: int, working: int = 1) -> Point:
    """Return a point at which so many tasks had ended."""
    at = NOW - timedelta(minutes=minutes_ago)
    return Point(at, minutes_ago * 60, ended, 0, 0, 1_000, working, 1)


def test_rate_is_that_of_the_shortest_window_in_which_enough_ended() -> None:
    """Of a fast campaign it is of ten minutes, of a slow one of as long as it takes."""
    fast = [point(60, 0), point(10, 1_000)]
    pace = recent_pace(fast, 1_600, 60)
    assert pace is not None
    assert (pace.per_s, pace.over_s, pace.eta_s) == (1.0, 600.0, 60.0)
    slow = [point(600, 0), point(60, 110), point(10, 119)]
    pace = recent_pace(slow, 120, 100)
    assert pace is not None
    assert (pace.ended, pace.over_s) == (120, 9 * 3_600.0)


def test_pause_before_the_window_is_no_part_of_it() -> None:
    """What ended since a point long ago, at which all stood still, ended in the window."""
    pace = recent_pace([point(3_000, 0, working=0)], 600, 600)
    assert pace is not None
    assert pace.over_s == 900.0


def test_nothing_ended_is_no_pace() -> None:
    """Neither without points, nor when nothing has ended since."""
    assert recent_pace([], 10, 10) is None
    assert recent_pace([point(60, 10), point(10, 10)], 10, 10) is None
    assert make_pace(5, 0.0, 10) is None


def test_eta_is_as_uncertain_as_few_ends_are() -> None:
    """Four ends say hardly more than that it ends; ten thousand say it to a percent."""
    few, many = make_pace(3, 60.0, 100), make_pace(10_000, 60.0, 100)
    assert few is not None
    assert few.eta_high_s is None
    assert few.eta() == "33 min 20 s (15 min 38 s to more)"
    assert many is not None
    assert many.eta() == "0.6 s"


def test_time_without_points_is_time_without_ends() -> None:
    """A campaign that stood still for a day and then ran for a minute ran for a minute."""
    found = intervals([point(1_441, 0), point(1_440, 60, working=0), point(0, 120)])
    assert [round(one.ended_per_s, 3) for one in found] == [1.0, 0.0, 1.0]
    assert found[2].end - found[2].begin == timedelta(minutes=1)


def test_time_without_a_keeper_is_spread_out() -> None:
    """At its begin tasks were at work, so they ended in all of it."""
    (one,) = intervals([point(100, 0), point(0, 600)])
    assert one.ended_per_s == pytest.approx(0.1)


def test_retried_tasks_are_no_negative_rate() -> None:
    """There are fewer that ended than before."""
    (one,) = intervals([point(10, 100), point(0, 40)])
    assert one.ended_per_s == 0.0
