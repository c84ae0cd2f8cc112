"""Pace of the agents of a process: closed loop, turns at an even rate, or open loop."""

from __future__ import annotations

import functools
import random
from collections import deque
from collections.abc import Sequence
from typing import Final

from benchmarks.load.agent import LoadAgent, Shared

DRY_S: Final = 0.01
"""After a claim that found nothing."""
TICK_S: Final = 0.002


def begin(shared: Shared, agents: Sequence[LoadAgent]) -> None:
    """Let agents speak from now on, as their work says."""
    work = shared.work
    if work.rate is None:
        _ClosedLoop(shared).begin(agents)
        return
    rate = work.rate * len(agents) / work.agents
    (_OpenLoop if work.random else _Turns)(shared, agents, rate).begin()


class _ClosedLoop:
    """Each asks again as soon as it is answered, or is content with what it has got."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        shared.answered = self._answered

    def begin(self, agents: Sequence[LoadAgent]) -> None:
        """Let agents speak for the first time, spread over some seconds."""
        loop, spread_s = self._shared.loop, self._shared.work.spread_s
        for place, agent in enumerate(agents):
            due = loop.now + spread_s * place / len(agents)
            loop.at(due, functools.partial(self._turn, agent, due))

    def _answered(self, agent: LoadAgent, served: bool) -> None:
        loop = self._shared.loop
        if not served:
            due = loop.now + DRY_S
            loop.at(due, functools.partial(self._turn, agent, due))
        elif not self._shared.work.content:
            agent.turn(loop.now)

    def _turn(self, agent: LoadAgent, due: float) -> None:
        if self._shared.claiming:
            agent.turn(due)


class _Turns:
    """All speak at an even rate, in turn, whether answers come or not.

    Who has not been answered when its turn comes leaves it out, and that is counted.
    """

    def __init__(self, shared: Shared, agents: Sequence[LoadAgent], rate: float) -> None:
        self._shared = shared
        self._agents = agents
        self._pause_s = 1 / rate
        self._due = shared.loop.now
        self._next = 0

    def begin(self) -> None:
        """Let all speak who are due, and come back for the next."""
        loop = self._shared.loop
        if not self._shared.claiming:
            return
        while self._due <= loop.now:
            agent = self._agents[self._next]
            self._next = (self._next + 1) % len(self._agents)
            if agent.waiting:
                self._shared.totals.late += 1
            else:
                agent.turn(self._due)
            self._due += self._pause_s
        loop.at(max(self._due, loop.now + TICK_S), self.begin)


class _OpenLoop:
    """Exchanges are due at random, as of many who know nothing of each other (Poisson).

    Who has been free for the longest speaks. One that is due while nobody is free waits for the
    next who is, and its latency counts from when it was due: otherwise a gateway that stalls would
    be asked less just then and look the better for it (coordinated omission, G. Tene).
    """

    def __init__(self, shared: Shared, agents: Sequence[LoadAgent], rate: float) -> None:
        self._shared = shared
        self._loop = shared.loop
        self._rate = rate
        self._free = deque(agents)
        self._overdue: deque[float] = deque()
        self._due = shared.loop.now
        shared.answered = self._answered

    def begin(self) -> None:
        """Let as many speak as are due, and come back for the next."""
        if not self._shared.claiming:
            return
        while self._due <= self._loop.now:
            if self._free:
                self._free.popleft().turn(self._due)
            else:
                self._overdue.append(self._due)
            self._due += random.expovariate(self._rate)
        self._loop.at(self._due, self.begin)

    def _answered(self, agent: LoadAgent, _: bool) -> None:
        if self._overdue:
            agent.turn(self._overdue.popleft())
        else:
            self._free.append(agent)


class PacedDelivery:
    """All report what they have, and claim no more."""

    def __init__(self, shared: Shared, agents: Sequence[LoadAgent]) -> None:
        self._agents = agents
        shared.claiming = False
        shared.answered = lambda agent, _: agent.deliver()
        self._loop, self._spread_s = shared.loop, shared.work.spread_s

    def begin(self) -> None:
        """Let all begin who do not wait for an answer; the others do so when they have got it."""
        for place, agent in enumerate(self._agents):
            if not agent.waiting:
                due = self._loop.now + self._spread_s * place / len(self._agents)
                self._loop.at(due, agent.deliver)

    def delivered(self) -> int:
        """Return how many have nothing left to report."""
        return sum([agent.has_delivered for agent in self._agents])
