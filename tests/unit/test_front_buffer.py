"""The hand: as much as is claimed in a moment is popped ahead, and no more."""

from __future__ import annotations

from taskq.front.buffer import AHEAD_S, KEEP_S, MOST, Buffer
from taskq.front.entries import Entry
from taskq_agent.protocol import Task

CAMPAIGN = 7


def entries(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def opened(raw: bytes, campaign: int, _now: float) -> Entry | None:
    """Open an entry that is only the number of its task; those below 0 are not good."""
    number = int(raw)
    task = Task(campaign, 1, number, "k", 1, f"lease {number}", {})
    return Entry(task, raw, float("inf")) if number >= 0 else None


def claimed_at_rate(per_s: int, seconds: float = 2.0) -> Buffer:
    """Return a hand from which so many tasks were claimed each second, one at a time."""
    hand = Buffer(CAMPAIGN, 0.0)
    for number in range(int(per_s * seconds)):
        now = number / per_s
        hand.put(entries(number))
        hand.claim(1, now, opened)
        hand.learn(now)
    return hand


def test_entries_are_handed_out_in_order_and_once() -> None:
    """A claim gets as many as there are, up to what it wants."""
    hand = Buffer(CAMPAIGN, 0.0)
    hand.put(entries(0, 1, 2, 3, 4))
    shares = [hand.claim(2, 0.0, opened) for _ in range(4)]
    assert [[one.task.task for one in share] for share in shares] == [[0, 1], [2, 3], [4], []]
    assert {one.task.campaign for share in shares for one in share} == {CAMPAIGN}


def test_entry_that_is_not_good_is_not_handed_out_and_counts_as_none() -> None:
    """It may be forged, or its lease be somebody else's before the agent's first beat."""
    hand = Buffer(CAMPAIGN, 0.0)
    hand.put(entries(-1, 5, -1, -1, 6, 7))
    assert [one.task.task for one in hand.claim(2, 0.0, opened)] == [5, 6]


def test_time_of_a_claim_is_the_time_at_which_its_entries_are_judged() -> None:
    """What was young when it was popped may be too old by then."""
    hand = Buffer(CAMPAIGN, 0.0)
    hand.put(entries(1))
    judged: list[float] = []
    assert hand.claim(1, 10.0, lambda _raw, _campaign, now: judged.append(now)) == []
    assert judged == [10.0]


def test_nothing_is_taken_ahead_of_the_first_claims() -> None:
    """A gateway that claims now and then leaves the lists to the others."""
    hand = Buffer(CAMPAIGN, 0.0)
    assert hand.target == 0
    assert not hand.is_low()


def test_hand_holds_what_is_claimed_in_a_moment() -> None:
    """It follows the rate of claims, within bounds."""
    hand = claimed_at_rate(2_000)
    assert abs(hand.target - 2_000 * AHEAD_S) < 0.2 * 2_000 * AHEAD_S
    assert claimed_at_rate(100_000, 0.5).target == MOST


def test_more_is_fetched_when_a_third_is_gone_and_only_once() -> None:
    """So claims do not wait for Redis, and pops are few."""
    hand = claimed_at_rate(2_000)
    hand.put(entries(*range(hand.target)))
    hand.claim(hand.target // 4, 2.0, opened)
    assert not hand.is_low()
    hand.claim(hand.target // 8, 2.0, opened)
    assert hand.is_low()
    hand.popping = True
    assert not hand.is_low()


def test_rate_is_forgotten_when_claims_stop() -> None:
    """What was claimed a minute ago is no reason to take anything now."""
    hand = claimed_at_rate(2_000)
    for second in range(3, 20):
        hand.learn(float(second))
    assert hand.target == 0


def test_what_is_left_can_be_given_back() -> None:
    """All of it, and it is not handed out any more."""
    hand = Buffer(CAMPAIGN, 0.0)
    hand.put(entries(0, 1, 2))
    hand.claim(1, 1.0, opened)
    assert hand.claimed_at == 1.0
    assert hand.emptied() == entries(1, 2)
    assert not hand
    assert hand.claim(1, 1.0 + KEEP_S, opened) == []
