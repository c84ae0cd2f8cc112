"""The heat map: failures, run times and results of hosts and sites over time."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from urllib.parse import urlencode

import psycopg
import pytest

from taskq import Client
from taskq.diagnosis.heat import MOST_PLACES, SPANS, read_heat, times
from tests.integration.web.conftest import Page, WebProcess

HOSTILE = '"><script>alert(1)</script>\u202e'
_INSERT = """
insert into taskq.end_sum (since, grain, campaign_id, host, site, release, outcome, sort, attempts,
    run_ms, core_ms, logs, squares, numbers, number_sum, number_squares)
values (taskq.ten_minutes(%(at)s), '10 min', %(campaign)s, %(host)s, %(site)s, '', %(outcome)s, '',
    %(attempts)s, %(ms)s, %(ms)s, %(logs)s, %(squares)s, %(numbers)s, %(sum)s, %(sum_squares)s)
"""


class Ends:
    """A campaign whose sums of ends a test writes."""

    def __init__(self, dsn: str, queue: Client) -> None:
        self.dsn = dsn
        self.path = f"/{secrets.token_hex(4)}"
        self.campaign = queue.create_campaign(self.path).campaign_id
        self.until: datetime = queue.queries.value("usage_until")

    def add(
        self, host: str, outcome: str, attempts: int, ago: timedelta, *, result: float | None = None
    ) -> None:
        """Add attempts of e seconds each that ended so long ago."""
        with psycopg.connect(self.dsn) as postgres:
            postgres.execute(
                _INSERT,
                {
                    "at": self.until - ago,
                    "campaign": self.campaign,
                    "host": host,
                    "site": host.partition(".")[2],
                    "outcome": outcome,
                    "attempts": attempts,
                    "ms": 2_718 * attempts,
                    "logs": attempts,
                    "squares": attempts,
                    "numbers": attempts if result is not None else 0,
                    "sum": (result or 0.0) * attempts,
                    "sum_squares": (result or 0.0) ** 2 * attempts,
                },
            )


@pytest.fixture
def ends(web_dsn: str, shown: Client) -> Ends:
    """Give a campaign without ends."""
    return Ends(web_dsn, shown)


def test_cells_lie_at_whole_times_and_the_last_has_now() -> None:
    """Of each span."""
    now = datetime(2026, 11, 29, 22, 47, tzinfo=timezone.utc)
    for _, span, width in SPANS.values():
        starts = times(now, span, width)
        assert starts[-1] <= now < starts[-1] + width
        assert starts[0] == starts[-1] + width - span
        assert {later - earlier for earlier, later in pairwise(starts)} == {width}


def test_map_shows_since_when_a_host_fails(ends: Ends, shown: Client) -> None:
    """Hosts at which most is wrong first; cells before are as usual, or empty."""
    for hours in range(3):
        ends.add("n1.a", "done", 50, timedelta(hours=hours))
        ends.add("n2.a", "failed" if hours == 0 else "done", 50, timedelta(hours=hours))
        ends.add("n3.b", "done", 500, timedelta(hours=hours))
    ends.add("n4.b", "cancelled", 9, timedelta())
    heat = read_heat(shown.queries, ends.path, "host", "failures", span="4h")
    assert [row.name for row in heat.rows] == ["n2.a", "n3.b", "n1.a"]
    bad = heat.rows[0]
    assert bad.whole.value == pytest.approx(1 / 3)
    filled = [(cell.value, cell.level) for cell in bad.cells if cell.value is not None]
    assert filled == [(0.0, 0), (0.0, 0), (1.0, 4)]
    assert all(cell.level == 0 for row in heat.rows[1:] for cell in row.cells)
    sites = read_heat(shown.queries, ends.path, "site", "failures", span="1d")
    assert [row.name for row in sites.rows] == ["a", "b"]
    assert (heat.whole.attempts, heat.has_results) == (1_800, False)


def test_map_shows_results_that_moved(ends: Ends, shown: Client) -> None:
    """And run times: the typical one, from sums of logarithms."""
    for n in range(10):
        ends.add(f"n{n}.a", "done", 10, timedelta(), result=-7.0 if n else -1.0)
    results = read_heat(shown.queries, ends.path, "host", "results", span="4h")
    assert (results.rows[0].name, results.rows[0].whole.value) == ("n0.a", -1.0)
    assert [row.whole.level > 0 for row in results.rows] == [True] + [False] * 9
    runs = read_heat(shown.queries, ends.path, "host", "runs", span="4h")
    assert runs.rows[0].whole.value == pytest.approx(2.718, abs=0.001)
    assert {row.whole.level for row in runs.rows} == {0}


def test_page_of_the_map_is_bounded_and_takes_nothing_as_markup(
    web: WebProcess, ends: Ends
) -> None:
    """Twenty places of twenty-four or so times on a page, by their trouble; each cell in words."""
    for n in range(MOST_PLACES + 5):
        ends.add(f"n{n:03d}.a", "done", 10, timedelta(hours=1))
    ends.add(f"{HOSTILE}.a", "failed", 10, timedelta())
    query = {"path": ends.path, "show": "failures", "of": "hosts"}
    for span, (_, whole, width) in SPANS.items():
        reply = web.ask("/heat?" + urlencode(query | {"span": span}))
        assert reply.status == 200
        assert "<script>alert" not in reply.text
        page = Page(reply.text)
        cells = [it for it in page.all("td") if "cell" in str(it.get("class"))]
        assert len(cells) == MOST_PLACES * (whole // width)
        assert any("100.0 % of 10 attempts failed" in str(it["title"]) for it in cells)
        assert "\u202e" not in page.text
    assert "26 hosts" in page.text
    second = web.page("/heat", **query, part="2")
    assert len([it for it in second.all("td") if it.get("class") == "whole"]) == 6
    assert web.page("/heat", path=ends.path, part="999", span="x", show="y", of="z").text


def test_map_of_a_campaign_in_which_nothing_ended_says_so(web: WebProcess, ends: Ends) -> None:
    """Instead of an empty table."""
    for show in ("failures", "runs", "results"):
        page = web.page("/heat", path=ends.path, show=show, of="sites", span="7d")
        assert "Nothing has ended in this time" in page.text


def test_map_is_for_those_who_may_see_the_campaign(
    guarded: WebProcess, shown: Client, ends: Ends
) -> None:
    """As every page."""
    token = shown.tokens.create("manager", secrets.token_hex(4), [ends.path])[0]
    headers = {"authorization": f"Bearer {token}"}
    assert guarded.ask(f"/heat?path={ends.path}", **headers).status == 200
    assert guarded.ask("/heat?path=/", **headers).status == 403
    assert guarded.ask(f"/heat?path={ends.path}").status == 401
