"""The tree as it is shown: bounded, in order, and why campaigns stand still."""

from __future__ import annotations

import pytest

from taskq.diagnosis.campaign_tree import MOST_SHOWN, Base, figures_of, grow, usual_levels
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
