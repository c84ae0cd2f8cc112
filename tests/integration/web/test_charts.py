"""Charts: finite numbers whatever is drawn, round labels, text that stays text."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import pytest

from taskq.web.charts import Line, histogram, timeline
from tests.integration.web.conftest import Page

NOW = datetime(2026, 3, 1, 7, 13, 29, tzinfo=timezone.utc)


def numbers(svg: str) -> list[float]:
    """Return the numbers of a picture's marks."""
    assert "nan" not in svg
    assert "inf" not in svg
    found = re.findall(r' (?:x|y|x1|y1|y2|width|height|d)="([^"]*)"', svg)
    return [float(one) for text in found for one in re.findall(r"-?[\d.]+", text)]


@pytest.mark.parametrize("value", [0.0, 1e-9, 0.3, 1.0, 7.0, 1e6, 1e12])
@pytest.mark.parametrize("span", [timedelta(seconds=1), timedelta(hours=5), timedelta(days=366)])
def test_timeline_stays_within_its_picture(value: float, span: timedelta) -> None:
    """From nothing to very much, over a second or a year, in not too many labels."""
    line = Line("<b>", "ended", [(NOW, NOW + span, value), (NOW + span, NOW + span, 0.0)])
    svg = timeline("<i>", "<u>", [line], lambda one: f"{one:g}")
    assert all(0 <= one <= 720 for one in numbers(svg))
    page = Page(svg)
    assert page.all("svg")[0]["aria-label"] == "<i>. <u>"
    assert {tag for tag, _ in page.elements} == {"svg", "line", "text", "path", "title"}
    assert len(page.all("text")) <= 14


def test_timeline_of_nothing_is_nothing() -> None:
    """The page says so in words."""
    assert timeline("a", "b", [Line("c", "d", [])], str) == ""


@pytest.mark.parametrize("ends", [(0.0, 1.0), (-1e300, 1e300), (2.0, 2.0), (-5e-300, 5e-300)])
def test_histogram_stays_within_its_picture(ends: tuple[float, float]) -> None:
    """Whatever the numbers."""
    svg = histogram("a", "b", [1, 0, 7, 1_000_000], ends, lambda one: f"{one:g}")
    assert all(0 <= one <= 720 for one in numbers(svg))
    assert len(Page(svg).all("rect")) == 4
