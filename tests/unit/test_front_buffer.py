"""The buffer: as much as is claimed in a moment is popped ahead, and no more."""

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
    """Return a buffer from which so many tasks were claimed each second, one at a time."""
    buffer = Buffer(CAMPAIGN, 0.0)
    for number in range(int(per_s * seconds)):
        now = number / per_s
        buffer.put(entries(number))
        buffer.claim(1, now, opened)
        buffer.learn(now)
    return buffer


def test_entries_are_handed_out_in_order_and_once() -> None:
    """A claim gets as many as there are, up to what it wants."""
    buffer = Buffer(CAMPAIGN, 0.0)
    buffer.put(entries(0, 1, 2, 3, 4))
    shares = [buffer.claim(2, 0.0, opened) for _ in range(4)]
    assert [[one.task.task for one in share] for share in shares] == [[0, 1], [2, 3], [4], []]
    assert {one.task.campaign for share in shares for one in share} == {CAMPAIGN}


def test_entry_that_is_not_good_is_not_handed_out_and_counts_as_none() -> None:
    """It may be forged, or its lease be somebody else's before the agent's first beat."""
    buffer = Buffer(CAMPAIGN, 0.0)
    buffer.put(entries(-1, 5, -1, -1, 6, 7))
    assert [one.task.task for one in buffer.claim(2, 0.0, opened)] == [5, 6]


def test_time_of_a_claim_is_the_time_at_which_its_entries_are_judged() -> None:
    """What was young when it was popped may be too old by then."""
    buffer = Buffer(CAMPAIGN, 0.0)
    buffer.put(entries(1))
    judged: list[float] = []
    assert buffer.claim(1, 10.0, lambda _raw, _campaign, now: judged.append(now)) == []
    assert judged == [10.0]


def test_nothing_is_taken_ahead_of_the_first_claims() -> None:
    """A gateway that claims now and then leaves the lists to the others."""
    buffer = Buffer(CAMPAIGN, 0.0)
    assert buffer.target == 0
    assert not buffer.is_low()


def test_buffer_holds_what_is_claimed_in_a_moment() -> None:
    """It follows the rate of claims, within bounds."""
    buffer = claimed_at_rate(2_000)
    assert abs(buffer.target - 2_000 * AHEAD_S) < 0.2 * 2_000 * AHEAD_S
    assert claimed_at_rate(100_000, 0.5).target == MOST


def test_more_is_fetched_when_a_third_is_gone_and_only_once() -> None:
    """So claims do not wait for Redis, and pops are few."""
    buffer = claimed_at_rate(2_000)
    buffer.put(entries(*range(buffer.target)))
    buffer.claim(buffer.target // 4, 2.0, opened)
    assert not buffer.is_low()
    buffer.claim(buffer.target // 8, 2.0, opened)
    assert buffer.is_low()
    buffer.popping = True
    assert not buffer.is_low()


def test_rate_is_forgotten_when_claims_stop() -> None:
    """What was claimed a minute ago is no reason to take anything now."""
    buffer = claimed_at_rate(2_000)
    for second in range(3, 20):
        buffer.learn(float(second))
    assert buffer.target == 0


def test_what_is_left_can_be_given_back() -> None:
    """All of it, and it is not handed out any more."""
    buffer = Buffer(CAMPAIGN, 0.0)
    buffer.put(entries(0, 1, 2))
    buffer.claim(1, 1.0, opened)
    assert buffer.claimed_at == 1.0
    assert buffer.emptied() == entries(1, 2)
    assert not buffer
    assert buffer.claim(1, 1.0 + KEEP_S, opened) == []
