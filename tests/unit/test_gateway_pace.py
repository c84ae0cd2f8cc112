"""Those who are turned away come again as fast as others are served: no idle server, no crowd."""

from __future__ import annotations

import heapq
import random

import pytest

from taskq.gateway.pace import LONGEST_S, Pace
from tests.helpers.variants import rest_thorough

MOST = 4_096
#: What agents add to what they are told.
LATE_S = 0.5


class Counter:
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
    counter = Counter(per_s, agents, seed)
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
