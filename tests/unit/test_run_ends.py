"""When campaigns end that share agents: the simulation of flows next to one of single claims."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from functools import cache
from statistics import median

import pytest

from taskq.model.run_ends import SlotKind, Span, WorkLeft, run_ends
from tests.helpers.claim_rule import Demand, Farm, works

FARMS = 10


def lasting(mean_s: float, spread: float) -> Callable[[random.Random], float]:
    """Return a function that draws log-normal run times."""
    wide = math.sqrt(math.log1p(spread**2))
    middle = math.log(mean_s) - wide**2 / 2
    return lambda draw: draw.lognormvariate(middle, wide)


@cache
def farm(number: int) -> Farm:
    """Return a farm of two to eight campaigns that has run; in half, some agents serve some."""
    draw = random.Random(number)
    demands = {
        campaign: Demand(
            tasks=draw.randint(20, 300),
            length=lasting(math.exp(draw.uniform(0, 3)), draw.choice([0.05, 0.3, 0.6, 1.0])),
            weight=draw.choice([1, 1, 2, 5]),
            retried=draw.choice([0.0, 0.0, 0.1]),
            most=draw.choice([math.inf, math.inf, math.inf, 3]),
        )
        for campaign in range(draw.randint(2, 8))
    }
    slots = draw.choice([6, 12, 40])
    kinds = [SlotKind(slots, list(demands))]
    if number % 2:
        kinds.append(SlotKind(slots // 2, [0, *(it for it in demands if draw.random() < 0.5)]))
    found = Farm(demands, kinds, draw)
    found.run()
    return found


def ratios(share: float) -> list[float]:
    """Return forecasts, by the truth, when so much of a campaign's time is over; in all farms."""
    found = []
    for number in range(FARMS):
        shared = farm(number)
        for campaign, end in shared.ends.items():
            look = shared.look(share * end)
            ends = run_ends(works(shared, look), shared.kinds)
            found.append(ends[campaign].s / (end - look.at))
    return found


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_campaigns_that_share_agents_end_as_forecast(share: float) -> None:
    """Half of the forecasts are within 30 % of the truth, nine of ten within a factor of two."""
    found = ratios(share)
    assert len(found) > 4 * FARMS
    assert median(abs(ratio - 1) for ratio in found) < 0.3
    assert sum(0.5 <= ratio <= 2 for ratio in found) >= 0.9 * len(found)


def work(campaign: int, left: float, **others: float) -> WorkLeft:
    """Return work whose tasks take ten seconds each, of which a hundred were seen."""
    known = {"working": 0.0, "task_s": 10.0, "start_s": 10.0, "spread": 0.1, "seen": 100}
    return WorkLeft(campaign=campaign, left=left, **(known | others))  # type: ignore[arg-type]


def test_short_campaign_hands_its_slots_to_the_others() -> None:
    """While both run each has five slots; then the long one has ten."""
    ends = run_ends([work(1, 100), work(2, 1_000)], [SlotKind(10, [1, 2])])
    assert ends[1].s == pytest.approx(100 * 10 / 5, rel=0.1)
    assert ends[2].s == pytest.approx(1_100 * 10 / 10, rel=0.1)


def test_weights_divide_the_slots() -> None:
    ends = run_ends([work(1, 300, weight=3), work(2, 300, weight=1)], [SlotKind(8, [1, 2])])
    assert ends[1].s == pytest.approx(300 * 10 / 6, rel=0.1)
    assert ends[2].s == pytest.approx(600 * 10 / 8, rel=0.1)


def test_weights_of_owners_come_first() -> None:
    """A second campaign gives an owner no more slots."""
    known = {"owner_weight": 1.0}
    works = [
        work(1, 400, owner="ada", **known),  # type: ignore[arg-type]
        *(work(number, 200, owner="bob", **known) for number in (2, 3)),  # type: ignore[arg-type]
    ]
    ends = run_ends(works, [SlotKind(8, [1, 2, 3])])
    assert ends[1].s == pytest.approx(1_000, rel=0.1)
    assert ends[2].s == ends[3].s == pytest.approx(1_000, rel=0.1)


def test_agents_of_one_campaign_alone_leave_the_shared_ones_to_others() -> None:
    """Its own ten slots are its whole share; the five shared ones go to the other."""
    ends = run_ends([work(1, 500), work(2, 500)], [SlotKind(10, [1]), SlotKind(5, [1, 2])])
    assert ends[1].s == pytest.approx(500, rel=0.15)
    assert ends[2].s < 1_000


def test_limits_hold_for_one_campaign_and_for_several_together() -> None:
    slots = [SlotKind(100, [1, 2])]
    assert run_ends([work(1, 200, most=4)], slots)[1].s == pytest.approx(500, rel=0.1)
    capped = [work(number, 100, caps=("x",)) for number in (1, 2)]  # type: ignore[arg-type]
    assert run_ends(capped, slots, {"x": 4.0})[2].s == pytest.approx(500, rel=0.1)


def test_running_tasks_keep_their_slots_from_those_that_come_later() -> None:
    """All eight slots run tasks of an hour; a new campaign waits until they end."""
    long = {"task_s": 3_600.0, "start_s": 3_600.0}
    ends = run_ends([work(1, 80, working=8, **long), work(2, 4)], [SlotKind(8, [1, 2])])
    assert 300 < ends[2].s < 3_600


def test_last_task_that_has_run_for_long_ends_soon() -> None:
    """Tasks of ten seconds: one that began nine seconds ago has one left."""
    fresh = run_ends([work(1, 1, working=1)], [SlotKind(1, [1])])[1]
    rested = run_ends([work(1, 1, working=1, rested_s=9.0)], [SlotKind(1, [1])])[1]
    assert fresh.s == pytest.approx(10, rel=0.1)
    assert rested.s < 2.5


def test_campaign_that_nobody_serves_has_no_end() -> None:
    assert not run_ends([work(1, 10)], [SlotKind(8, [2])]).keys()
    assert not run_ends([work(1, 10)], []).keys()
    assert not run_ends([], [SlotKind(8, [2])]).keys()


def test_assumed_run_times_give_no_latest_end() -> None:
    """Few that were seen give a wider range than many."""
    few, many = (run_ends([work(1, 100, seen=n)], [SlotKind(8, [1])])[1] for n in (3, 1_000))
    assert run_ends([work(1, 100, seen=0)], [SlotKind(8, [1])])[1].high_s is None
    assert few.low_s < many.low_s < many.s < (many.high_s or 0) < (few.high_s or 0)


def test_large_queue_is_simulated_as_a_whole() -> None:
    """A thousand campaigns of all sizes on thousands of slots of several kinds."""
    draw = random.Random(1)
    served = range(1_000)
    several = [
        work(
            it, draw.randint(1, 10**6), task_s=10 ** draw.uniform(-1, 4), weight=draw.randint(1, 9)
        )
        for it in served
    ]
    kinds = [SlotKind(1_000, [it for it in served if it % n == 0]) for n in (1, 2, 3, 5)]
    ends = run_ends(several, kinds)
    assert ends.keys() == set(served)
    whole = sum(it.left * it.task_s for it in several)
    assert max(end.s for end in ends.values()) > whole / 4_000 * 0.9


def test_end_comes_nearer_as_time_goes_on() -> None:
    assert Span(10.0, 5.0, None).later(7.0) == Span(3.0, 0.0, None)
