"""What `watch` and `top` show: the tree, bounded and in order; trends; servers and gateways."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from taskq.diagnosis.campaign_tree import MOST_SHOWN, Base, figures_of, grow, usual_levels
from taskq.diagnosis.servers import GatewayLoad, ServerLoad, Servers
from taskq.diagnosis.trend import Point, intervals, make_pace, recent_pace
from taskq.model.views import Status


def status(number: int, path: str, **counts: object) -> Status:
    """Return the counts of a campaign."""
    names = ["waiting", "delayed", "working", "done", "failed", "cancelled", "failures", "losses"]
    values = {"state": "open", "paused_why": None, "children": 0} | dict.fromkeys(names, 0)
    return Status(campaign_id=number, path=path, **values | counts)  # type: ignore[arg-type]


def test_large_trees_are_shown_in_part() -> None:
    """A thousand at most, none without those above it, those nearest to the top first."""
    paths = ["/", "/a", "/a-b", "/a-b/z", *(f"/a/{n:05}" for n in range(3_000)), "/z"]
    tree = grow([status(n, path) for n, path in enumerate(paths)], {}, None, 0.0)
    shown, more = tree.shown("/", 9)
    assert (len(shown), more) == (MOST_SHOWN, len(paths) - MOST_SHOWN)
    names = [node.status.path for node in shown]
    assert names[:3] == ["/", "/a", "/a/00000"]
    assert names[-3:] == ["/a-b", "/a-b/z", "/z"]
    shown, more = tree.shown("/", 1)
    assert [node.status.path for node in shown] == ["/", "/a", "/a-b", "/z"]
    assert usual_levels(tree.levels("/")) == 1
    assert len(figures_of(tree, "/", 9)) < 20 * MOST_SHOWN
    assert tree.shown("/nope", 9) == ([], 0)


def test_counts_paces_and_agents_include_what_is_below() -> None:
    """Agents also what is above."""
    statuses = [
        status(1, "/"),
        status(2, "/a", done=5, waiting=10),
        status(3, "/a/b", done=7, waiting=20),
        status(4, "/c", done=1, waiting=1),
    ]
    bases = {2: Base(ended=2, at=90.0), 3: Base(ended=7, at=90.0)}
    tree = grow(statuses, bases, {1: 5, 2: 10, 3: 100}, 100.0)
    assert [node.status.done for node in tree.nodes.values()] == [13, 12, 7, 1]
    assert [node.agents for node in tree.nodes.values()] == [115, 115, 115, 5]
    paces = [node.pace for node in tree.nodes.values()]
    assert paces[1] is not None
    assert paces[1].per_s == pytest.approx(1.0)
    assert paces[1].eta_s == pytest.approx(30.0)
    assert (paces[0], paces[2], paces[3]) == (None, None, None)


def test_no_end_is_told_before_delayed_tasks_are_due() -> None:
    """Nor of what is above them; what is finished has neither end nor rate."""
    statuses = [
        status(1, "/", done=1),
        status(2, "/a", done=5, waiting=10),
        status(3, "/a/b", done=7, delayed=2),
        status(4, "/c", done=9),
    ]
    bases = {number: Base(ended=1, at=90.0) for number in (1, 2, 3, 4)}
    tree = grow(statuses, bases, None, 100.0, {3: 700.0})
    texts = figures_of(tree, "/", 9)
    etas = [texts[f"{number}.eta"] for number in (1, 2, 3, 4)]
    assert etas == ["10 min", "10 min", "10 min", ""]
    assert (texts["3.rate"], texts["4.rate"]) == ("0.6/s", "")
    pace = tree.nodes["/a/b"].pace
    assert pace is not None
    assert pace.eta() == "10 min (10 min to more)" or pace.eta() == "10 min"


def test_closed_campaigns_say_why() -> None:
    """By themselves, by somebody, or with the one above."""
    statuses = [
        status(1, "/"),
        status(2, "/a", state="paused"),
        status(3, "/a/b", state="paused"),
        status(4, "/a/b/c", state="cancelled"),
        status(5, "/d", state="paused", paused_why="90 of 100 attempts failed"),
    ]
    tree = grow(statuses, {}, None, 0.0)
    assert [node.why for node in tree.nodes.values()] == [
        "",
        "paused by an operator",
        "paused with /a",
        "cancelled by an operator",
        "paused itself: 90 of 100 attempts failed",
    ]


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


GATEWAY = GatewayLoad("n1:8443", "1", 3_000, 1_234.5, True, 2.0)
DATABASE = ServerLoad(False, "18.0", 3 * 2**30, 34, 100, 2.5, 2, 0.04)


def test_line_tells_what_is_there_and_what_is_wrong() -> None:
    """In 80 columns, if nothing is wrong."""
    others = [replace(GATEWAY, name="n2", front=False), replace(GATEWAY, name="n3", silent_s=90.0)]
    line = Servers([GATEWAY, *others], DATABASE).line()
    assert line == (
        "2 gateways  2,469/s exchanges  1 SILENT  FRONT AVOIDED  3 GiB  34/100 connections"
        "  snapshot 2.5 s  standby 0.0 s behind"
    )
    assert [one.state for one in others] == ["front avoided", "silent for 1 min 30 s"]
    usual = Servers([GATEWAY, GATEWAY], replace(DATABASE, oldest_s=None, lag_s=None))
    assert len(usual.line()) <= 80
    assert Servers([], None).line() == ""
    assert Servers([replace(GATEWAY, silent_s=90.0)], None).line() == "0 gateways  1 SILENT"


def test_facts_leave_out_what_is_not_known() -> None:
    """As of a login that may not see what others do."""
    assert dict(DATABASE.facts())["standbys"] == "2, 0.0 s behind at most"
    bare = replace(DATABASE, standby=True, oldest_s=None, standbys=0, lag_s=None)
    assert dict(bare.facts()) == {
        "database": "standby, PostgreSQL 18.0",
        "size": "3 GiB",
        "connections": "34 of 100",
    }
