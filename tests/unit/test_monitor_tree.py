"""What `watch` and `top` show: the tree, bounded and in order; trends; servers and gateways."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime, timedelta, timezone

import pytest

from taskq.diagnosis.campaign_tree import (
    MOST_SHOWN,
    Tree,
    usual_levels,
)
from taskq.diagnosis.campaign_tree import grow as grow_from
from taskq.diagnosis.forecast import Standstill, measured, span_of
from taskq.diagnosis.servers import GatewayLoad, ServerLoad, Servers
from taskq.diagnosis.tables.campaigns import figures_of
from taskq.diagnosis.tree_readings import Base, TreeReadings
from taskq.diagnosis.trend import Point, intervals
from taskq.model.views import Status


def status(number: int, path: str, **counts: object) -> Status:
    """Return the counts of a campaign."""
    names = ["waiting", "delayed", "working", "done", "failed", "cancelled", "failures", "losses"]
    values = {"state": "open", "paused_why": None, "children": 0} | dict.fromkeys(names, 0)
    return Status(campaign_id=number, path=path, **values | counts)  # type: ignore[arg-type]


def grow(
    statuses: list[Status],
    bases: dict[int, Base],
    scopes: dict[int, int] | None,
    at: float,
    dues: dict[int, float] | None = None,
    standstills: dict[int, Standstill] | None = None,
) -> Tree:
    """Return the tree of these readings."""
    read = TreeReadings("/", statuses, bases, {}, scopes, dues or {}, standstills or {})
    return grow_from(read, at)


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


def test_no_view_says_that_nobody_claims_once_somebody_has() -> None:
    """The reason was read up to 10 s ago; counts are of now. What had begun before may end."""
    read = TreeReadings("/")

    def look(**counts: int) -> Mapping[int, Standstill]:
        read.take("counts", [asdict(status(1, "/", **counts)), asdict(status(2, "/a", **counts))])
        return read.standstills

    look(waiting=5, working=1, done=2)
    about = {"has_handler": True, "lacking": []}
    rows = [{"campaign_id": 1, "seeding": False, "served": False, **about}]
    rows += [{"campaign_id": 2, "seeding": True, "served": True, **about}]
    read.take("standstills", rows)
    assert look(waiting=5, working=0, done=3).keys() == {1, 2}
    assert look(waiting=4, working=1, done=3).keys() == {2}, "a claim says nothing about seeding"


def test_counts_paces_and_agents_include_what_is_below() -> None:
    """Agents also what is above."""
    statuses = [
        status(1, "/"),
        status(2, "/a", done=5, waiting=10),
        status(3, "/a/b", done=7, waiting=20),
        status(4, "/c", done=1, waiting=1),
    ]
    bases = {2: Base(ended=2, at=50.0), 3: Base(ended=6, at=50.0)}
    tree = grow(statuses, bases, {1: 5, 2: 10, 3: 100}, 100.0)
    assert [node.status.done for node in tree.nodes.values()] == [13, 12, 7, 1]
    assert [node.agents for node in tree.nodes.values()] == [115, 115, 115, 5]
    paces = [node.forecast.per_s for node in tree.nodes.values()]
    assert paces == [None, pytest.approx(10 / 50), pytest.approx(1 / 50), None]


def test_forecast_gives_no_end_before_delayed_tasks_are_due() -> None:
    """Also for campaigns above; a finished campaign has neither end nor rate."""
    statuses = [
        status(1, "/", done=1),
        status(2, "/a", done=5, waiting=9, working=1),
        status(3, "/a/b", done=7, delayed=2),
        status(4, "/c", done=9),
    ]
    bases = {number: Base(ended=1, at=50.0) for number in (1, 2, 3, 4)}
    tree = grow(statuses, bases, None, 100.0, {3: 700.0})
    texts = figures_of(tree, "/", 9)
    assert [texts[f"{number}.eta"] for number in (1, 2, 3, 4)] == ["10 min"] * 3 + [""]
    assert (texts["3.rate"], texts["4.rate"]) == ("7.2/min", "")
    assert tree.nodes["/a/b"].forecast.text().startswith("2 delayed until ")
    above = tree.nodes["/a"].forecast
    assert re.fullmatch(r"10 tasks in 45 s \(.*\); 2 delayed until ..:..Z", above.text())
    assert tree.nodes["/"].forecast.eta_s == above.eta_s == pytest.approx(600)


def test_tasks_that_do_not_end_are_not_in_the_eta() -> None:
    """They are named with their reasons; a paused campaign has no end at all."""
    gpu = Standstill(3, seeding=False, has_handler=True, served=True, lacking=["gpu"])
    statuses = [
        status(1, "/"),
        status(2, "/a", done=600, waiting=299, working=1),
        status(3, "/g", waiting=75),
        status(4, "/p", state="paused", waiting=320, delayed=3),
    ]
    bases = {1: Base(0, 0.0), 2: Base(0, 0.0), 4: Base(-50, 0.0)}
    tree = grow(statuses, bases, None, 600.0, {4: 9_999.0}, {3: gpu})
    found = [node.forecast for node in tree.nodes.values()]
    assert [forecast.eta_s for forecast in found] == [
        pytest.approx(300),
        pytest.approx(300),
        None,
        None,
    ]
    text = "300 tasks in 5 min; 75 wait: no agent at work offers gpu; 323 paused"
    assert re.sub(r" \(.*\)", "", found[0].text()) == text
    assert [forecast.short() for forecast in found] == ["5 min+", "5 min", "waits", ""]
    assert found[2].text() == "75 wait: no agent at work offers gpu"
    assert found[3].text() == "323 paused"


def test_no_end_is_known_while_tasks_are_added_or_nothing_runs() -> None:
    """However fast it was before."""
    seeding = Standstill(2, seeding=True, has_handler=True, served=True, lacking=[])
    statuses = [
        status(1, "/"),
        status(2, "/a", done=600, waiting=300, working=1),
        status(3, "/b", done=600, waiting=300),
    ]
    bases = dict.fromkeys((1, 2, 3), Base(0, 0.0))
    tree = grow(statuses, bases, None, 600.0, None, {2: seeding})
    assert [node.forecast.eta_s for node in tree.nodes.values()] == [None, None, None]
    assert [node.forecast.text() for node in tree.nodes.values()] == [
        *["unknown while tasks are added"] * 2,
        "",
    ]


def test_no_campaign_ends_before_those_below_it() -> None:
    """A fast campaign does not hide a slow one."""
    statuses = [
        status(1, "/"),
        status(2, "/fast", done=6_000, waiting=59, working=1),
        status(3, "/slow", done=60, waiting=59, working=1),
    ]
    tree = grow(statuses, dict.fromkeys((1, 2, 3), Base(0, 0.0)), None, 600.0)
    assert [round(node.forecast.eta_s or 0) for node in tree.nodes.values()] == [600, 6, 600]


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
        "/a was paused by an operator",
        "/a (a campaign above) was paused by an operator",
        "/a/b/c was cancelled by an operator",
        "/d paused itself: 90 of 100 attempts failed",
    ]


NOW = datetime(2026, 6, 1, tzinfo=timezone.utc)


def point(minutes_ago: float, ended: int, working: int = 1) -> Point:
    """Return a point at which so many tasks had ended."""
    at = NOW - timedelta(minutes=minutes_ago)
    return Point(at, minutes_ago * 60, ended, 0, 0, 1_000, working, 1)


def test_eta_is_as_uncertain_as_few_ends_are() -> None:
    """Four ends say hardly more than that it ends; ten thousand say it to a percent."""
    few, many = span_of(100, measured(3, 60.0)), span_of(100, measured(10_000, 60.0))
    assert few is not None
    assert few.high_s is None
    assert str(few) == "33 min 20 s (15 min 38 s to more)"
    assert str(many) == "0.6 s"
    assert (measured(0, 60.0), measured(5, 1.0), span_of(3, None)) == (None, None, None)


def test_time_without_points_is_time_without_ends() -> None:
    """A campaign that stood still for a day and then ran for a minute ran for a minute."""
    found = intervals([point(1_441, 0), point(1_440, 60, working=0), point(0, 120)])
    assert [round(interval.ended_per_s, 3) for interval in found] == [1.0, 0.0, 1.0]
    assert found[2].end - found[2].begin == timedelta(minutes=1)


def test_time_without_a_keeper_is_spread_out() -> None:
    """At its begin tasks were at work, so they ended in all of it."""
    (interval,) = intervals([point(100, 0), point(0, 600)])
    assert interval.ended_per_s == pytest.approx(0.1)


def test_retried_tasks_are_no_negative_rate() -> None:
    """There are fewer that ended than before."""
    (interval,) = intervals([point(10, 100), point(0, 40)])
    assert interval.ended_per_s == 0.0


GATEWAY = GatewayLoad("n1:8443", "1", 3_000, 1_234.5, True, 2.0)
DATABASE = ServerLoad(False, "18.0", 3 * 2**30, 34, 100, 2.5, 2, 0.04)


def test_status_line_shows_counts_and_troubles() -> None:
    """In 80 columns, if nothing is wrong."""
    others = [replace(GATEWAY, name="n2", front=False), replace(GATEWAY, name="n3", silent_s=90.0)]
    line = Servers([GATEWAY, *others], DATABASE).line()
    assert line == (
        "2 gateways  2,469/s exchanges  1 SILENT  FRONT AVOIDED  3 GiB  34/100 connections"
        "  snapshot 2.5 s  standby 0.0 s behind"
    )
    assert [other.state for other in others] == ["front avoided", "silent for 1 min 30 s"]
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
