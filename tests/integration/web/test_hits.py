"""The page of the best results, and charts."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import pytest

from taskq import Campaign, Client
from taskq.gateway.web.charts import Line, histogram, timeline
from taskq.gateway.web.hits import EACH, MOST_FIELDS, STRETCHES, numeric_fields, read_hits
from tests.fixtures.queues import Hire
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres
from tests.helpers.scripted_agent import report_of
from tests.integration.web.conftest import Page


def report(campaign: Campaign, hire: Hire, results: list[dict[str, object]]) -> None:
    """Do a task for each result."""
    campaign.seed({"n": n} for n in range(len(results)))
    agent = hire(campaign.path)
    tasks = agent.claim(len(results))
    reports = zip(tasks, results, strict=True)
    agent.exchange([report_of(task, "done", result=result) for task, result in reports])


def test_hits_are_the_best_of_the_campaign(queue: Client, campaign: Campaign, hire: Hire) -> None:
    """Numbers only, also nested ones; the field is one of those that can be chosen."""
    odd: list[dict[str, object]] = [{"a": {"b": "text"}}, {"a": 3}, {}, {"a": {"b": True}}]
    report(campaign, hire, [{"a": {"b": n}, "c": [1]} for n in range(50)] + odd)
    assert {"a.b"} <= {*numeric_fields(queue.database, campaign.campaign_id)} <= {"a", "a.b"}
    hits = read_hits(queue.database, campaign.campaign_id, "a.b", ascending=False)
    assert hits is not None
    assert [hit.value for hit in hits.best] == [*range(49, 39, -1)]
    assert (hits.seen, hits.numbers, hits.low, hits.median, hits.high) == (54, 50, 0, 25, 49)
    assert sum(hits.bins) == 50
    hits = read_hits(queue.database, campaign.campaign_id, "a.b", ascending=True)
    assert hits is not None
    assert [hit.value for hit in hits.best] == [*range(10)]
    assert read_hits(queue.database, campaign.campaign_id, "nope", ascending=True) is None


def test_fields_to_choose_are_those_that_most_results_have(
    queue: Client, campaign: Campaign, hire: Hire
) -> None:
    """Not those that one result invents, wherever they stand in the alphabet."""
    invented: dict[str, object] = {f"a{n}": n for n in range(500)}
    report(campaign, hire, [invented] * 3 + [{"score": n} for n in range(9)])
    fields = numeric_fields(queue.database, campaign.campaign_id)
    assert "score" in fields
    assert len(fields) == MOST_FIELDS


def test_numbers_beyond_a_double_are_left_out(
    queue: Client, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """JSON has them, and they are no reason to show nothing."""
    report(campaign, hire, [{"x": n} for n in range(6)])
    for task, number in ((1, "1e400"), (2, "1e-400"), (3, "-1e5000"), (4, "1." + "9" * 9_000)):
        postgres.execute(
            "update taskq.attempt set result = jsonb_build_object('x', %s::numeric) where task_id ="
            " (select min(task_id) + %s from taskq.attempt)",
            [number, task],
        )
    hits = read_hits(queue.database, campaign.campaign_id, "x", ascending=False)
    assert hits is not None
    assert sorted(hit.value for hit in hits.best) == pytest.approx([0, 2, 5])


def test_sample_is_bounded_and_from_all_over(queue: Client, postgres: Postgres) -> None:
    """Of thirty thousand results ten thousand are read, the last part as much as the first."""
    campaign = queue.create_campaign("/large")
    postgres.execute(
        "insert into taskq.attempt (campaign_id, task_id, attempt, lease_id, session_id,"
        "  claimed_at, ended_at, outcome, result)"
        " select %s, n, 1, gen_random_uuid(), 0, now(), now(), 'done',"
        "        jsonb_build_object('n', n) from generate_series(1, 30000) n",
        [campaign.campaign_id],
    )
    with watched(postgres) as plans:
        rows = postgres.execute(
            "select * from taskq.result_sample(%s, 'n', %s, %s)",
            [campaign.campaign_id, STRETCHES, EACH],
        ).fetchall()
    assert len(rows) == STRETCHES * EACH
    assert len({int(row["value"] - 1) // 600 for row in rows}) == STRETCHES
    assert sum(access.rows for access in plans.to("attempt").accesses) <= STRETCHES * EACH + 2
    assert plans.to("attempt").access_paths == {"attempt by attempt_pkey"}


NOW = datetime(2026, 3, 1, 7, 13, 29, tzinfo=timezone.utc)


def numbers(svg: str) -> list[float]:
    """Return the numbers of a picture's marks."""
    assert "nan" not in svg
    assert "inf" not in svg
    found = re.findall(r' (?:x|y|x1|y1|y2|width|height|d)="([^"]*)"', svg)
    return [float(match) for text in found for match in re.findall(r"-?[\d.]+", text)]


@pytest.mark.parametrize("value", [0.0, 1e-9, 0.3, 1.0, 7.0, 1e6, 1e12])
@pytest.mark.parametrize("span", [timedelta(seconds=1), timedelta(hours=5), timedelta(days=366)])
def test_timeline_stays_within_its_picture(value: float, span: timedelta) -> None:
    """From nothing to very much, over a second or a year, in not too many labels."""
    line = Line("<b>", "ended", [(NOW, NOW + span, value), (NOW + span, NOW + span, 0.0)])
    svg = timeline("<i>", "<u>", [line], lambda number: f"{number:g}")
    assert all(0 <= number <= 720 for number in numbers(svg))
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
    svg = histogram("a", "b", [1, 0, 7, 1_000_000], ends, lambda number: f"{number:g}")
    assert all(0 <= number <= 720 for number in numbers(svg))
    assert len(Page(svg).all("rect")) == 4
