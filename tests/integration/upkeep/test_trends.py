"""Trends: how campaigns went, recorded by the keeper within bounds, and the rate that they tell."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import pytest

from taskq import Campaign, Client
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, value
from tests.helpers.scripted_agent import report_of
from tests.helpers.waiting import wait_until

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
    assert {path: point.agents for path, point in points.items()} == {
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


def points(postgres: Postgres, campaign: Campaign, *ended_at: tuple[int, int, int]) -> None:
    """Record points so many minutes ago, each with tasks that had ended, and tasks at work."""
    postgres.execute("delete from taskq.trend")
    for minutes, ended, working in ended_at:
        postgres.execute(
            "insert into taskq.trend (campaign_id, minute, done, failed, failures, unfinished,"
            " working, agents) select %s, extract(epoch from now())::bigint / 60 - %s,"
            " %s, 0, 0, 1000, %s, 1",
            [campaign.campaign_id, minutes, ended, working],
        )


def test_rate_is_that_of_the_shortest_time_in_which_enough_ended(
    campaign: Campaign, postgres: Postgres, hire: Hire
) -> None:
    """Ten minutes of a fast campaign, longer of a slow one, without what was idle or retried."""
    campaign.seed({"n": n} for n in range(300))
    work(campaign, hire, 120)
    hire("/c").claim(1)

    def check(ended: int, minutes: int, *at: tuple[int, int, int]) -> None:
        points(postgres, campaign, *at)
        pace = campaign.forecast().pace
        assert pace is not None
        assert pace.over_s is not None
        assert pace.ended == ended
        assert pace.over_s == pytest.approx(60 * minutes, abs=90)

    check(110, 11, (30, 0, 1), (11, 10, 1), (1, 119, 1))
    check(120, 30, (30, 0, 1), (20, 60, 1), (10, 80, 1))
    # It stood still for 20 minutes; the first minute is when the last task before that ended.
    check(120, 30, (50, 0, 1), (30, 40, 0), (10, 40, 1))
    check(140, 50, (50, 90, 1), (20, 200, 1), (10, 90, 1))
    check(20, 10, (3_000, 0, 1), (10, 100, 1))


def test_no_end_before_delayed_tasks_are_due(
    queue: Client, postgres: Postgres, hire: Hire, dsn: str
) -> None:
    """All views say the same; none while the campaign is paused."""
    campaign = servable(queue)
    campaign.seed({"n": n} for n in range(15))
    agent = hire("/c")
    agent.fail(agent.claim(1)[0])
    work(campaign, hire, 10)
    agent.claim(1)
    points(postgres, campaign, (10, 0, 1))
    postgres.execute(
        "update taskq.task set due_at = now() + interval '3 h' where status = 'delayed'"
    )
    found = campaign.forecast()
    assert 10_700 < (found.eta_s or 0) <= 10_800
    soon = r"4 tasks in .* with 2 slots as now"
    assert re.fullmatch(rf"{soon}; 1 delayed until ..:..Z", found.text())
    taskq = CommandLine(dsn)
    ends = re.escape(found.text().rpartition("; ")[2])
    for view in ("status", "explain", ["watch", "--timeout", "0"]):
        words = [view] if isinstance(view, str) else view
        assert re.search(f"ETA  *{soon}; {ends}", taskq(*words, "/c").stdout), view
    assert re.search(r" 3 h|2 h 59 min", taskq.out("ls"))
    campaign.pause()
    assert "ETA        4 paused" in taskq.out("status", "/c")
    assert campaign.forecast().eta_s is None


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
    postgres.execute("set statement_timeout = 0")  # a busy machine may take a minute for one
    postgres.execute(FILL, [campaigns, now - minutes, now - 1])
    postgres.execute("select taskq.thin_trends(%s)", [now])
    left = value(postgres, "select count(*) from taskq.trend")
    assert left <= 90_000
    assert left > 45_000

    def is_compact() -> bool:
        """Others at work on this server may keep rows that have just been removed."""
        postgres.execute("vacuum full taskq.trend")
        return bool(value(postgres, "select pg_relation_size('taskq.trend')") < 100 * left)

    wait_until(is_compact, timeout_s=90.0)
    # Autovacuum looks once in a minute of the clock, not of this test.
    postgres.execute("alter table taskq.trend set (autovacuum_enabled = false)")
    # What comes until the points are thinned again, and leaves dead rows.
    for minute in range(now, now + 30):
        postgres.execute(FILL, [1_000, minute, minute])
        if minute % 10 == 0:
            postgres.execute("select taskq.thin_trends(%s)", [minute])
        postgres.execute("vacuum taskq.trend")
    assert value(postgres, "select pg_total_relation_size('taskq.trend')") < 20 * MEGABYTE
