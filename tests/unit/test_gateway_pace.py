"""The pace of a gateway: those it turns away, rates of tokens, large requests, ends of outages."""

from __future__ import annotations

import heapq
import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taskq.dispatch.fair_queue import LargeTurns
from taskq.gateway import token_rate
from taskq.gateway.http.errors import BadRequest, retry_after_s
from taskq.gateway.messages import MAX_DEPTH, read_hello
from taskq.gateway.pace import LONGEST_S, Pace
from taskq.gateway.token_rate import TokenRate
from taskq_agent.core.call_state import CallState
from taskq_agent.errors import TransportFailed
from tests.helpers.variants import rest_thorough

MOST = 4_096
#: What agents add to the time that a gateway gives.
LATE_S = 0.5


class Crowd:
    """A queue with a limit, served at a rate, and agents who come within a second."""

    def __init__(self, per_s: float, agents: int, seed: int) -> None:
        self.now = 0.0
        self._random = random.Random(seed)
        self.pace = Pace(lambda: self.now)
        self._per_s = per_s
        self._agents = agents
        self.waiting = self.taken = self.turned_away = 0
        self.idle_s = 0.0

    def run(self) -> float:
        """Let all come; return when the last one has been served."""
        coming = [(self._random.random(), number) for number in range(self._agents)]
        heapq.heapify(coming)
        free_at = 0.0
        while coming:
            self.now, number = heapq.heappop(coming)
            while self.waiting and free_at <= self.now:
                self.waiting -= 1
                free_at += 1 / self._per_s
            if not self.waiting and free_at < self.now:
                self.idle_s += (self.now - free_at) * (self.taken > 0)
                free_at = self.now
            if self.waiting < MOST:
                self.waiting += 1
                self.taken += 1
                continue
            self.turned_away += 1
            wait_s = self.pace.wait_s(self.waiting, self.taken - self.waiting, self._agents)
            assert 0 < wait_s <= LONGEST_S
            heapq.heappush(coming, (self.now + wait_s + self._random.uniform(0, LATE_S), number))
        return free_at + self.waiting / self._per_s


@pytest.mark.parametrize("seed", rest_thorough(range(3)))
@pytest.mark.parametrize("per_s", [200, 500, 1_000, 3_000])
@pytest.mark.parametrize("agents", [5_000, 10_000, 20_000])
def test_crowd_is_served_nearly_as_fast_as_if_it_waited_in_line(
    per_s: float, agents: int, seed: int
) -> None:
    """Whatever the rate is, which nobody knows beforehand."""
    counter = Crowd(per_s, agents, seed)
    ended_s = counter.run()
    assert ended_s < 1.3 * agents / per_s + 4
    assert counter.turned_away < 4 * agents


def test_crowd_of_long_ago_is_forgotten() -> None:
    """What was promised to those who never came again keeps nobody waiting."""
    now = 0.0
    pace = Pace(lambda: now)
    for _ in range(20_000):
        pace.wait_s(MOST, 0, 100_000)
    assert pace.wait_s(MOST, 0, 100_000) > 10
    now = 1_000.0
    assert pace.wait_s(MOST, 0, 100_000) < 10


def test_no_more_are_ahead_than_there_are() -> None:
    """Who asks again and again is one agent, and makes nobody wait for ever."""
    pace = Pace(lambda: 0.0)
    for _ in range(50_000):
        last_s = pace.wait_s(0, 0, 500)
    assert last_s < 1


#: What begins, ends or looks like an escape, a string or a value.
PIECES = st.sampled_from(
    ["\\", '"', "\x00", "\\u0000", "u0000", "\ud83d", "\ude00", "😀", "[", "]", "{", "}", "n", "é"]
)
TEXTS = st.lists(PIECES, max_size=6).map("".join)
VALUES = st.recursive(
    TEXTS | st.none() | st.integers(-9, 9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)
DEEP = st.sampled_from([0, 1, MAX_DEPTH - 4, MAX_DEPTH - 3, MAX_DEPTH - 2, MAX_DEPTH, 150])


def is_storable(value: Any, depth: int = 1) -> bool:
    """Walk through a value."""
    if isinstance(value, str):
        return "\x00" not in value and not any("\ud800" <= name <= "\udfff" for name in value)
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        return depth <= MAX_DEPTH and all(is_storable(item, depth + 1) for item in value)
    return True


@given(VALUES, DEEP, st.booleans())
@example(["\\\\u0000", "\ud83d\ude00"], 0, False)
@example(['"[', '\\"]'] * 60, 0, True)
def test_values_are_judged_as_a_walk_through_them_would(
    value: Any, deep: int, in_lists: bool
) -> None:
    """NUL and lone surrogates, in names too, and nesting; nothing else is refused."""
    for _ in range(deep):
        value = [value] if in_lists else {"a": value}
    hello = {"campaign": "/c", "key": "0" * 8 + "-0000" * 3 + "-" + "0" * 12, "later": [value]}
    body = json.dumps(hello)
    expected = is_storable(json.loads(body))
    if expected:
        assert read_hello(body.encode()).campaign == "/c"
    else:
        with pytest.raises(BadRequest):
            read_hello(body.encode())


def test_rest_follows_from_what_a_turn_has_cost() -> None:
    """A client that asks for more rests longer; the first and late requests wait for nothing."""
    turns = LargeTurns(5.0)
    assert turns.wait_s(0.0) == 0.0
    turns.begin(100.0)
    assert turns.under_way
    turns.end(102.0)
    assert not turns.under_way
    assert turns.wait_s(103.0) == 9.0
    assert turns.wait_s(113.0) == 0.0
    turns.begin(113.0)
    turns.end(114.0, times=3.0)
    assert turns.wait_s(114.0) == 15.0
    turns.cut_short()
    assert turns.wait_s(114.0) == 0.0


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def test_token_waits_for_its_turn_and_no_other_does() -> None:
    """Each of those that come at the same time waits a little longer than the one before."""
    clock = Clock()
    rate = TokenRate(3, 10.0, clock)
    waits = []
    for _ in range(6):
        waits.append(rate.wait_s("a"))
        rate.count("a")
    assert waits == pytest.approx([0, 0, 0, 0.1, 0.2, 0.3])
    assert rate.wait_s("b") == 0
    clock.now += 0.2
    assert rate.wait_s("a") == pytest.approx(0.2)
    clock.now += 10
    assert rate.wait_s("a") == 0


def test_turns_have_the_rate_in_the_long_run() -> None:
    """However often the token asks."""
    clock = Clock()
    rate = TokenRate(20, 100.0, clock)
    began, asked = clock.now, 0
    while clock.now < began + 10:
        wait_s = rate.wait_s("a")
        rate.count("a")
        asked += 1
        clock.now += wait_s
    assert 10 * 100 <= asked <= 10 * 100 + 20 + 1


def test_tokens_that_are_counted_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that ask most stay, and what is no token is forgotten."""
    monkeypatch.setattr(token_rate, "MOST_COUNTED", 10)
    rate = TokenRate(2, 0.001, Clock())
    for _ in range(2):
        rate.count("often")
    assert rate.wait_s("often")
    for n in range(1_000):
        rate.count(str(n))
        assert len(rate) <= 10
    assert rate.wait_s("often")
    rate.forget("often")
    assert not rate.wait_s("often")


AGENTS = 20_000
OUTAGE_S = 16.0
SOON_S = 5.0
#: Exchanges a second that a gateway with a database on two cores serves are 20,000.
MOST_PER_S = 9_000


def gone() -> TransportFailed:
    """Return what an agent hears where nobody listens."""
    return TransportFailed("connection refused")


def away() -> TransportFailed:
    """Return what a gateway answers without its database; an agent has two connections."""
    return TransportFailed("the database does not answer now", retry_after_s(2 * AGENTS))


@pytest.mark.thorough
@pytest.mark.parametrize("error", [gone, away])
def test_agents_are_back_within_seconds_and_not_at_once(
    error: Callable[[], TransportFailed], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anyone who asks during the outage fails; all ask again within 5 s of its end."""
    drawn = random.Random(0)
    monkeypatch.setattr("random.uniform", drawn.uniform)
    due = [(drawn.random(), number) for number in range(AGENTS)]
    heapq.heapify(due)
    agents = [CallState(drawn.random) for _ in due]
    tries: Counter[int] = Counter()
    answered = []
    while due:
        now, number = heapq.heappop(due)
        if now >= OUTAGE_S:
            answered.append(now - OUTAGE_S)
            continue
        tries[int(now)] += 1
        agents[number].failed(now, error())
        heapq.heappush(due, (agents[number].ready_at() or 0.0, number))

    assert len(answered) == AGENTS
    assert max(answered) <= SOON_S
    assert max(Counter(map(int, answered)).values()) <= MOST_PER_S
    settled = [tries[second] for second in range(8, int(OUTAGE_S))]
    assert max(settled) <= MOST_PER_S
