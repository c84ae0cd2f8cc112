"""Times in which the queue stood still: keepers record them, and nobody is judged by them."""

from __future__ import annotations

from dataclasses import replace

import psycopg
import pytest

from taskq import Campaign
from tests.fixtures.queues import Hire
from tests.helpers.meanwhile import meanwhile
from tests.helpers.postgres import Postgres, keep, value
from tests.helpers.waiting import wait_until
from tests.integration.explaining.support import Make, explained
from tests.integration.explaining.test_overdue import begun_earlier

_STALLED_S = "select coalesce(sum(extract(epoch from until - since)), 0)::float from taskq.stall"


def _stalled(postgres: Postgres, since_s: float, until_s: float) -> None:
    """Record a stall, by how many seconds ago it began and ended."""
    postgres.execute(
        "insert into taskq.stall values (clock_timestamp() - make_interval(secs => %s),"
        " clock_timestamp() - make_interval(secs => %s))",
        [since_s, until_s],
    )


def _codes(campaign: Campaign) -> set[str]:
    return {it.code for it in explained(campaign).reasons}


def test_server_that_was_away_stood_still_since_the_last_round(postgres: Postgres) -> None:
    """Not if a keeper was away for a moment only, or if there was none before."""
    keep(postgres)
    assert value(postgres, _STALLED_S) == 0
    postgres.execute("update taskq.keeper set renewed_at = renewed_at - interval '10 s'")
    keep(postgres)
    assert value(postgres, _STALLED_S) == 0
    postgres.execute("update taskq.keeper set renewed_at = renewed_at - interval '1 h'")
    keep(postgres)
    assert 3_600 <= value(postgres, _STALLED_S) < 7_200


@pytest.mark.thorough
def test_lock_of_a_stranger_is_one_stall_until_it_ends(
    make: Make, hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """Recorded while it lasts, though keepers can act; it grows, and ends with the lock."""
    make("/c", tasks=5)
    agent = hire("/c")
    (held,) = agent.claim()
    with psycopg.connect(dsn) as stranger:
        stranger.execute("lock table taskq.attempt in exclusive mode")
        with meanwhile(lambda _: agent.done(held)):

            def stalled_s() -> float:
                keep(postgres)
                return float(value(postgres, _STALLED_S))

            wait_until(lambda: stalled_s() >= 5, timeout_s=60)
            first = stalled_s()
            wait_until(lambda: stalled_s() > first)
            assert value(postgres, "select count(*) from taskq.stall") == 1
            stranger.rollback()
    last = value(postgres, _STALLED_S)
    keep(postgres)
    assert value(postgres, _STALLED_S) == last


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "alone"])
def test_attempt_is_not_overdue_by_the_time_in_which_the_queue_stood_still(
    packed: bool, make: Make, hire: Hire, postgres: Postgres
) -> None:
    """Two hours at work, all but seconds of it stalled; explain says that it stood still."""
    campaign = make("/c", tasks=30)
    agent, other = hire("/c", host="n1"), hire("/c", host="n2")
    for task in agent.claim(25):
        agent.done(task)
    (held,) = other.claim()
    if not packed:
        other.release(held, started=False)
        other.claim()
    begun_earlier(postgres, 7_200)
    assert "overdue" in _codes(campaign)
    _stalled(postgres, 7_190, 5_000)
    assert "overdue" in _codes(campaign)
    _stalled(postgres, 5_000, 5)
    reasons = {it.code: it for it in explained(campaign).reasons}
    assert "overdue" not in reasons
    assert "stood still for 59 min" in reasons["stood-still"].text


def test_instant_since_which_the_queue_served_leaves_out_stalls(postgres: Postgres) -> None:
    """Before, between, at and across stalls; both functions agree."""
    keep(postgres)
    postgres.execute(
        "insert into taskq.stall values ('2020-01-01 10:00Z', '2020-01-01 10:30Z'),"
        " ('2020-01-01 11:00Z', '2020-01-01 11:30Z')"
    )
    for seconds, expected in [
        (60, "11:59"),
        (1_800, "11:30"),
        (1_860, "10:59"),
        (3_600, "10:30"),
        (3_660, "09:59"),
    ]:
        (found,) = postgres.execute(
            "select a.at, taskq.served_s(a.at, '2020-01-01 12:00Z') as s"
            "  from taskq.served_ago('2020-01-01 12:00Z', %s) as a (at)",
            [seconds],
        ).fetchall()
        assert f"{found['at']:%H:%M}" == expected
        assert found["s"] == pytest.approx(seconds)


def test_attempt_keeps_its_time_limit_by_what_the_queue_served(
    make: Make, hire: Hire, postgres: Postgres
) -> None:
    """A new limit of 60 s ends what was at work for an hour, unless the queue stood still."""
    campaign = make("/c", tasks=3)
    agent = hire("/c")
    agent.claim()
    begun_earlier(postgres, 3_600)
    campaign.change(replace(campaign.spec(), time_limit_s=60.0))
    _stalled(postgres, 3_590, 5)
    assert value(postgres, "select taskq.enforce_time_limits()") == 0
    postgres.execute("delete from taskq.stall")
    assert value(postgres, "select taskq.enforce_time_limits()") == 1


def test_attempt_is_not_hedged_by_the_time_in_which_the_queue_stood_still(
    make: Make, hire: Hire, postgres: Postgres
) -> None:
    """Nor do the times of those that ended meanwhile make the usual time longer."""
    make("/c", tasks=26, late_results="salvage", hedge=0.05)
    agent = hire("/c", host="slow")
    hire("/c", host="fast", slots=100)
    for task in agent.claim(25):
        agent.done(task)
    postgres.execute(
        "update taskq.attempt set claimed_at = claimed_at - interval '2 h',"
        " ended_at = ended_at - interval '1 h'"
    )
    agent.claim()
    begun_earlier(postgres, 3_600)
    _stalled(postgres, 7_190, 3_601)
    assert value(postgres, "select count(*) from taskq.ending_campaigns(10)") == 1
    _stalled(postgres, 3_595, 5)
    assert value(postgres, "select taskq.hedge()") == 0
    postgres.execute("delete from taskq.stall where until > clock_timestamp() - interval '1 min'")
    assert value(postgres, "select taskq.hedge()") == 1
