"""How much is leased ahead, of which campaign next: learned from how the lists shrink."""

from __future__ import annotations

from itertools import pairwise

import pytest

from taskq.front.demand import AHEAD_S, LEAST, MOST, Demand
from taskq.front.levels import MOST_LISTS, Lease, Level, Levels

FRESH_S = 30.0
STEP_S = 0.25


def popped_at(rate: float, seconds: float, demand: Demand, since: float = 0.0) -> float:
    """Take so many entries a second out of a list that never runs dry; return the time then."""
    now = since
    owed = 0.0
    for _ in range(round(seconds / STEP_S)):
        now += STEP_S
        owed += rate * STEP_S
        demand.seen(int(owed), now, emptied=False)
        owed -= int(owed)
    return now


@pytest.mark.parametrize("rate", [100, 1_000, 8_000])
def test_list_holds_what_is_asked_for_in_two_seconds(rate: int) -> None:
    """Learned within five seconds."""
    demand = Demand(FRESH_S, 0.0)
    now = popped_at(rate, 5.0, demand)
    assert demand.target(now) == pytest.approx(AHEAD_S * rate, rel=0.1)


def test_depth_follows_demand_down_and_ends_when_nobody_asks() -> None:
    """Down slower than up; nothing is kept once an entry would be too old."""
    demand = Demand(FRESH_S, 0.0)
    now = popped_at(1_000, 5.0, demand)
    high = demand.target(now)
    now = popped_at(100, 20.0, demand, now)
    assert LEAST < demand.target(now) < high / 5
    now = popped_at(0, FRESH_S + 1, demand, now)
    assert demand.target(now) == 0


def test_list_never_exceeds_its_bound() -> None:
    """However fast entries vanish."""
    demand = Demand(FRESH_S, 0.0)
    now = popped_at(10_000_000, 10.0, demand)
    assert demand.target(now) == MOST


def test_first_question_is_worth_the_least_length() -> None:
    """Nothing else is known of the campaign."""
    demand = Demand(FRESH_S, 0.0)
    assert demand.target(1.0) == 0
    demand.wanted(1.0)
    assert demand.target(1.0) == LEAST


def test_list_that_was_emptied_is_filled_to_twice_the_depth() -> None:
    """How much more would have gone cannot be seen."""
    demand = Demand(FRESH_S, 0.0)
    demand.wanted(0.0)
    targets = []
    for turn in range(1, 5):
        demand.seen(demand.target(turn * 0.1), turn * 0.1, emptied=True)
        targets.append(demand.target(turn * 0.1))
    assert all(later >= 2 * sooner for sooner, later in pairwise(targets))


def test_rare_demand_keeps_few_entries() -> None:
    """So that the last one is not too old when its turn comes."""
    demand = Demand(FRESH_S, 0.0)
    demand.wanted(0.0)
    now = popped_at(0.5, 60.0, demand)
    assert 1 <= demand.target(now) < LEAST


def stocked(*, length: int, rank: int = 0) -> Level:
    """Return a list of a campaign that is asked for."""
    stock = Level(FRESH_S, 0.0)
    stock.servable = True
    stock.demand.wanted(0.0)
    if length:
        stock.put(length, rank, 0.0)
    return stock


def test_list_is_filled_when_it_is_low_and_then_to_its_target() -> None:
    """Not for each entry that goes."""
    low = stocked(length=0).low_water(0.0)
    assert LEAST / 2 < low < LEAST
    stock = stocked(length=low + 1)
    assert stock.missing(0.0) == 0
    assert stock.seen(low, 0.1)
    target = stock.demand.target(0.1)
    assert stock.missing(0.1) == target - low
    stock.put(3, 0, 0.1)
    assert stock.missing(0.1) == target - low - 3
    stock.put(target - stock.length, 0, 0.1)
    assert stock.missing(0.1) == 0


def test_list_longer_than_what_was_pushed_is_not_believed() -> None:
    """Somebody else has written there."""
    stock = stocked(length=10)
    assert not stock.seen(11, 0.1)
    assert stock.length == 10


def test_rank_and_age_are_those_of_what_is_left() -> None:
    """Entries go from the left; what was pushed there goes first."""
    stock = stocked(length=10, rank=0)
    stock.put(5, 3, 1.0)
    stock.put(2, -7, 2.0, first=True)
    assert (stock.rank, stock.oldest_at) == (3, 0.0)
    assert stock.seen(15, 3.0)
    assert (stock.rank, stock.oldest_at) == (3, 0.0)
    assert stock.seen(5, 4.0)
    assert (stock.rank, stock.oldest_at) == (3, 1.0)
    assert stock.seen(0, 5.0)
    assert stock.oldest_at is None


def test_overtakers_are_bounded_by_the_target() -> None:
    """However many of a higher priority wait."""
    stock = stocked(length=LEAST, rank=0)
    stock.overtaken = True
    assert stock.missing(0.0) == LEAST
    stock.put(LEAST - 1, -5, 0.0, first=True)
    assert stock.missing(0.0) == 1
    stock.put(1, -5, 0.0, first=True)
    assert stock.missing(0.0) == 0


def test_campaign_gets_a_list_once_it_is_asked_for_and_has_tasks() -> None:
    """What turns out to have none is asked about again only if it is asked for again."""
    stocks = Levels(FRESH_S)
    stocks.wanted([1, 2], 0.0)
    assert sorted(stocks.doubtful()) == [1, 2]
    stocks.servable([2], 0.0)
    assert stocks.campaigns() == [2]
    assert stocks.doubtful() == []
    assert stocks.next(0.0) == Lease(2, LEAST, None)


def test_list_that_ends_first_is_filled_first() -> None:
    """In chunks, so that the others do not wait for long."""
    stocks = Levels(FRESH_S)
    stocks.wanted([1, 2], 0.0)
    stocks.servable([1, 2], 0.0)
    now = popped_at(5_000, 5.0, stocks[1].demand)
    popped_at(100, 5.0, stocks[2].demand)
    stocks[1].put(1_000, 0, now)
    stocks[2].put(60, 0, now)
    assert stocks.next(now) == Lease(1, 1_000, None)
    stocks[1].put(8_000, 0, now)
    lease = stocks.next(now)
    assert lease is not None
    assert lease.campaign == 2


def test_campaign_that_turned_out_empty_is_doubtful_when_it_is_asked_for_again() -> None:
    """Not before; and if nobody asks, it is forgotten."""
    stocks = Levels(FRESH_S)
    stocks.wanted([1], 0.0)
    stocks.servable([1], 0.0)
    stocks[1].servable = False
    assert stocks.next(1.0) is None
    assert stocks.doubtful() == []
    stocks.wanted([1], 1.0)
    assert stocks.doubtful() == [1]
    stocks.servable([1], 1.0)
    assert stocks.next(1.0) is not None
    assert stocks.forget(1.0) == []
    assert stocks.forget(FRESH_S + 2) == [1]
    assert stocks.campaigns() == []


def test_large_entries_make_lists_and_chunks_short() -> None:
    """What is in memory, and on its way, is bounded."""
    stock = stocked(length=0)
    popped_at(8_000, 5.0, stock.demand)
    assert stock.missing(5.0) > 10_000
    assert stock.chunk(stock.missing(5.0)) == 1_000
    stock.put(10, 0, 5.0, size=10 * 65_536)
    assert 500 < stock.missing(5.0) < 1_100
    assert stock.chunk(stock.missing(5.0)) <= 64


def test_list_with_entries_that_are_too_old_is_named() -> None:
    """Those of another refiller, whose age is unknown, sooner."""
    stocks = Levels(FRESH_S)
    stocks.inherit(1, 10, 0.0)
    stocks.inherit(2, 0, 0.0)
    stocks[2].put(5, 0, 0.0)
    assert stocks.old(FRESH_S / 2) == []
    assert stocks.old(FRESH_S / 2 + 1) == [1]
    assert stocks.old(FRESH_S + 1) == [1, 2]
    stocks[1].clear()
    assert stocks.old(FRESH_S + 1) == [2]
    assert stocks.as_record() == [(2, 5, 0)]


def test_numbers_of_campaigns_made_up_by_others_are_bounded() -> None:
    """Anyone who can write into Redis can name any."""
    stocks = Levels(FRESH_S)
    stocks.wanted(range(100 * MOST_LISTS), 0.0)
    assert len(stocks.doubtful()) == MOST_LISTS
