"""Trends: how campaigns went, recorded by the keeper within bounds, and the rate that they tell."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import pytest

from taskq import Campaign, Client
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, value
from tests.helpers.scripted_agent import report_of

MEGABYTE = 1 << 20
KEEP = "select taskq.keep('00000000-0000-0000-0000-000000000000', 60)"
FILL = """
    insert into taskq.trend (
           campaign_id, minute, done, failed, failures, unfinished, working, agents)
    select c, m, m, 0, 0, 1, 1, 1
      from generate_series(1, %s) c cross join generate_series(%s, %s) m
"""


def record(postgres: Postgres, at: datetime | None = None) -> int:
    """Record the trends as at an instant, by default now."""
    return int(value(postgres, "select taskq.record_trends(coalesce(%s, clock_timestamp()))", at))


def work(campaign: Campaign, hire: Hire, count: int) -> None:
    """Do some tasks of a campaign."""
    agent = hire(campaign.path)
    tasks = agent.claim(count)
    assert len(tasks) == count
    agent.exchange([report_of(task, "done", result={}) for task in tasks])


def test_keeper_records_once_a_minute(campaign: Campaign, postgres: Postgres) -> None:
    """A campaign with tasks, and the root; a second round in the minute finds it done."""
    campaign.seed({"n": n} for n in range(3))
    for _ in range(2):
        postgres.execute(KEEP)
    point = campaign.trend()[0]
    assert (point.unfinished, point.done, point.agents) == (3, 0, 0)
    assert value(postgres, "select count(distinct minute) from taskq.trend") <= 2


def test_points_count_what_is_below_and_agents_above_and_below(
    queue: Client, postgres: Postgres, hire: Hire
) -> None:
    """As `status` and `agents list` do."""
    child, other = (queue.create_campaign(path) for path in ("/a/b", "/c"))
    child.seed({"n": n} for n in range(5))
    other.seed([{"n": 1}])
    agents = [hire(path) for path in ("/", "/a", "/a/b", "/c")]
    tasks = agents[2].claim(3)
    agents[2].exchange([report_of(tasks[0], "done", result={})])
    record(postgres)
    points = {path: queue.campaign(path).trend()[-1] for path in ("/", "/a", "/a/b", "/c")}
    assert {path: one.agents for path, one in points.items()} == {
        path: len(queue.agents(path)) for path in points
    }
    for path, point in points.items():
        status = queue.campaign(path).status()
        assert (point.done, point.working, point.unfinished) == (
            status.done,
            status.working,
            status.unfinished,
        )


def test_campaign_that_does_not_move_gets_no_points(
    queue: Client, campaign: Campaign, postgres: Postgres, hire: Hire
) -> None:
    """But one when it has stopped, and one when its last agent has gone."""
    began = datetime(2026, 1, 1, tzinfo=timezone.utc)
    minutes = iter(range(100))

    def tick() -> int:
        record(postgres, began + timedelta(minutes=next(minutes)))
        return len(campaign.trend())

    campaign.seed({"n": n} for n in range(4))
    assert tick() == 1
    assert tick() == 1
    work(campaign, hire, 2)
    assert tick() == 2
    assert tick() == 2
    queue.drain_agents()
    postgres.execute("update taskq.session set ended_at = now() where session_id <> 0")
    assert [tick(), tick()] == [3, 3]
    assert len(queue.campaign("/").trend()) == 6


def test_pace_is_that_of_the_trend(campaign: Campaign, postgres: Postgres, hire: Hire) -> None:
    """Over the shortest time in which enough tasks ended, with what chance may do to it."""
    campaign.seed({"n": n} for n in range(300))
    now = datetime.now(timezone.utc)
    assert campaign.pace() is None
    record(postgres, now - timedelta(minutes=10))
    work(campaign, hire, 120)
    pace = campaign.pace()
    assert pace is not None
    assert pace.ended == 120
    assert 600 <= pace.over_s <= 900
    assert pace.per_s == pytest.approx(120 / pace.over_s)
    assert pace.eta_s == pytest.approx(180 / pace.per_s)
    assert pace.eta_low_s < pace.eta_s < (pace.eta_high_s or 0)


def test_pace_has_no_end_before_delayed_tasks_are_due(
    campaign: Campaign, postgres: Postgres, hire: Hire, dsn: str
) -> None:
    """Nor does `taskq status` tell one; none at all while the campaign is paused."""
    campaign.seed({"n": n} for n in range(11))
    record(postgres, datetime.now(timezone.utc) - timedelta(minutes=10))
    agent = hire()
    agent.fail(agent.claim(1)[0])
    work(campaign, hire, 10)
    postgres.execute(
        "update taskq.task set due_at = now() + interval '3 h' where status = 'delayed'"
    )
    pace = campaign.pace()
    assert pace is not None
    assert pace.eta_s > 10_000
    taskq = CommandLine(dsn)
    assert re.search(r"ETA (3 h|2 h 59 min)", taskq.out("status", campaign.path))
    campaign.pause()
    assert "ETA" not in taskq.out("status", campaign.path)


def test_clock_that_was_ahead_is_forgotten(campaign: Campaign, postgres: Postgres) -> None:
    """Otherwise nothing would be recorded until that time has come."""
    campaign.seed([{"n": 1}])
    now = datetime.now(timezone.utc)
    assert record(postgres, now + timedelta(days=400))
    assert record(postgres, now)
    assert [round(point.age_s / 60) for point in campaign.trend()] in ([0], [1])


def test_removed_campaign_leaves_no_points(campaign: Campaign, postgres: Postgres) -> None:
    """Its number is never used again, so nobody would ever look at them."""
    campaign.seed([{"n": 1}])
    record(postgres)
    campaign.remove()
    assert campaign.trend() == []


def test_age_thins_points_and_a_year_ends_them(postgres: Postgres) -> None:
    """The last of each stretch stays, so that no count is lost."""
    now = 30_000_000
    postgres.execute(FILL, [1, now - 370 * 1_440, now - 365 * 1_440])
    postgres.execute(FILL, [1, now - 4_000, now])
    postgres.execute("select taskq.thin_trends(%s)", [now])

    def gaps(younger: int, older: int) -> set[int]:
        rows = postgres.execute(
            "select minute - lag(minute) over (order by minute) as gap from taskq.trend"
            " where minute between %s and %s",
            [now - older, now - younger],
        )
        return {row["gap"] for row in rows if row["gap"] is not None}

    assert gaps(0, 180) == {1}
    assert gaps(200, 2_800) == {10}
    assert gaps(3_000, 3_900) == {120}
    oldest = value(postgres, "select min(minute) from taskq.trend")
    assert now - 366 * 1_440 <= oldest < now - 364 * 1_440
    assert value(postgres, "select max(minute) from taskq.trend") == now


@pytest.mark.thorough
@pytest.mark.parametrize(("campaigns", "minutes"), [(1_000, 400), (150_000, 2)])
def test_trends_stay_below_20_mb(postgres: Postgres, campaigns: int, minutes: int) -> None:
    """With many campaigns that move all the time, and with very many that moved once."""
    now = 30_000_000
    postgres.execute(FILL, [campaigns, now - minutes, now - 1])
    postgres.execute("select taskq.thin_trends(%s)", [now])
    left = value(postgres, "select count(*) from taskq.trend")
    assert left <= 90_000
    assert left > 45_000
    postgres.execute("vacuum full taskq.trend")
    # What comes until the points are thinned again, and leaves dead rows.
    for minute in range(now, now + 30):
        postgres.execute(FILL, [1_000, minute, minute])
        if minute % 10 == 0:
            postgres.execute("select taskq.thin_trends(%s)", [minute])
            postgres.execute("vacuum taskq.trend")  # as autovacuum does
    assert value(postgres, "select pg_total_relation_size('taskq.trend')") < 20 * MEGABYTE
