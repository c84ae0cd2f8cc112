"""How long the tasks of a campaign take, by those that have ended and those that still run."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from statistics import mean

import pytest

from taskq import Campaign
from tests.helpers.postgres import Postgres

#: Lengths of tasks in seconds, by a draw.
LENGTHS: dict[str, Callable[[random.Random], float]] = {
    "uniform": lambda draw: draw.uniform(200, 800),
    "exponential": lambda draw: draw.expovariate(1 / 500),
    "few-long": lambda draw: draw.choice([50.0, 50.0, 50.0, 2_000.0]),
}

_WORK = """
    with run as (
        select s.task_id, r.began_s, r.lasted_s, now() - make_interval(secs => %(age_s)s) as begun
          from (select s.task_id, row_number() over (order by s.task_id) as place
                  from taskq.spec s where s.campaign_id = %(campaign)s) s
          join unnest(%(began_s)s::float[], %(lasted_s)s::float[]) with ordinality
               as r (began_s, lasted_s, place) on r.place = s.place
    ), gone as (
        delete from taskq.span where campaign_id = %(campaign)s
    ), ended as (
        insert into taskq.attempt (
               campaign_id, task_id, attempt, lease_id, session_id, claimed_at, ended_at, outcome)
        select %(campaign)s, task_id, 1, gen_random_uuid(), 1,
               begun + make_interval(secs => began_s),
               begun + make_interval(secs => began_s + lasted_s), 'done'
          from run
         where began_s + lasted_s <= %(age_s)s
    )
    insert into taskq.task (
           campaign_id, task_id, status, lease_id, session_id, attempt, claimed_at)
    select %(campaign)s, task_id, 'working', gen_random_uuid(), 1, 1,
           begun + make_interval(secs => began_s)
      from run
     where began_s + lasted_s > %(age_s)s
"""


def work(
    campaign: Campaign, postgres: Postgres, slots: int, age_s: float, length: Callable[[], float]
) -> tuple[list[float], list[float]]:
    """Let slots work for so long, each on one task after the other; return begins and lengths."""
    free = [0.0] * slots
    began, lasted = [], []
    while (now := heapq.heappop(free)) <= age_s:
        began.append(now)
        lasted.append(length())
        heapq.heappush(free, now + lasted[-1])
    campaign.seed({"n": n} for n in range(len(began)))
    postgres.execute(
        _WORK,
        {
            "campaign": campaign.campaign_id,
            "began_s": began,
            "lasted_s": lasted,
            "age_s": age_s,
        },
    )
    return began, lasted


@pytest.mark.parametrize("age_s", [300.0, 700.0, 2_500.0, 6_000.0])
@pytest.mark.parametrize("slots", [1_000, 100])
@pytest.mark.parametrize("name", LENGTHS)
def test_run_times_are_right_whatever_still_runs(
    campaign: Campaign, postgres: Postgres, name: str, slots: int, age_s: float
) -> None:
    """As far as anybody can know: the mean of what tasks last within the time that was seen."""
    draw = random.Random(f"{name} {slots} {age_s}")
    length = LENGTHS[name]
    work(campaign, postgres, slots, age_s, lambda: length(draw))
    truth = [length(draw) for _ in range(20_000)]
    usual_s = campaign.usual_run_s()
    assert usual_s is not None
    assert usual_s <= mean(truth) * 1.15
    assert usual_s >= mean(min(number, age_s) for number in truth) * 0.85


def test_attempt_that_was_cut_off_counts_as_longer_than_it_ran(
    campaign: Campaign, postgres: Postgres
) -> None:
    """So do tasks that the ends of jobs take from their agents."""
    work(campaign, postgres, 100, 1_000.0, iter([100.0, 500.0] * 1_000).__next__)
    before = campaign.usual_run_s()
    postgres.execute(
        "update taskq.attempt set outcome = 'lost' where ended_at - claimed_at > '300 s'"
    )
    after = campaign.usual_run_s()
    assert before is not None
    assert after is not None
    assert after >= before * 0.9


def test_nothing_is_known_before_the_first_end(campaign: Campaign, postgres: Postgres) -> None:
    """However long agents have worked."""
    work(campaign, postgres, 10, 100.0, lambda: 200.0)
    assert campaign.usual_run_s() is None
