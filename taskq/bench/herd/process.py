"""One process of a herd: its agents, from the first connection to the end."""

from __future__ import annotations

import functools
import itertools
import ssl
import time
from collections.abc import Sequence
from typing import Final

from taskq.bench.herd.agent import Agent, Shared
from taskq.bench.herd.beats import begin_beats
from taskq.bench.herd.board import Ends
from taskq.bench.herd.connection import Route
from taskq.bench.herd.work import Address, Credentials, Tally, Work
from taskq.bench.loop import Loop

SOURCES: Final = 8
CONNECTING: Final = 100
"""Connections under way at a time, where agents do not arrive by themselves."""
TICK_S: Final = 0.002
READY_S: Final = 120.0


def run(
    work: Work,
    gateways: Sequence[Address],
    credentials: Sequence[Credentials],
    process: int,
    ends: Ends,
) -> None:
    """Be the agents of one process until told to stop. credentials: by the agents' numbers."""
    routes = _routes(work, gateways)
    shared = Shared(Loop(), work, Tally(), ends.latencies)
    loop, tally = shared.loop, shared.tally
    agents = [
        Agent(
            shared,
            routes[number % len(routes)],
            number,
            credentials[number] if credentials else None,
        )
        for number in work.numbers(process)
    ]

    def go_on() -> bool:
        ends.counts[:] = tally.values()
        return not ends.stop.value

    if work.kept and not work.enrol:
        _connect(loop, tally, agents)
        loop.run(lambda: go_on() and tally.connected < len(agents))
    ends.ready.wait(READY_S)
    loop.now = time.perf_counter()
    if work.rate is not None:
        Pacer(loop, tally, agents, work.rate * len(agents) / work.agents).begin()
    else:
        _begin(loop, agents, work.spread_s)
    if work.beat_s is not None:
        begin_beats(shared, agents, work.beat_s)
    loop.run(go_on)


def _routes(work: Work, gateways: Sequence[Address]) -> list[Route]:
    """Return the ways to the gateways, to be taken in turn."""
    context = None
    if work.authority is not None:
        context = ssl.create_default_context(cafile=str(work.authority))
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    return [
        Route(gateway, f"127.0.0.{1 + source}", context, work.kept, work.resumed)
        for source in range(SOURCES)
        for gateway in gateways
    ]


def _connect(loop: Loop, tally: Tally, agents: Sequence[Agent]) -> None:
    """Connect all, some at a time, so that none is turned away by a full backlog."""
    left = iter(agents)
    begun = 0

    def more() -> None:
        nonlocal begun
        for agent in itertools.islice(left, CONNECTING - (begun - tally.connected)):
            agent.connect()
            begun += 1
        if begun < len(agents):
            loop.at(loop.now + TICK_S, more)

    more()


def _begin(loop: Loop, agents: Sequence[Agent], spread_s: float) -> None:
    """Let agents speak for the first time, spread over some seconds."""
    for place, agent in enumerate(agents):
        due = loop.now + spread_s * place / len(agents)
        loop.at(due, functools.partial(agent.turn, due))


class Pacer:
    """Lets agents speak at an even rate, in turn, whether answers come or not."""

    def __init__(self, loop: Loop, tally: Tally, agents: Sequence[Agent], rate: float) -> None:
        self._loop = loop
        self._tally = tally
        self._agents = agents
        self._pause_s = 1 / rate
        self._due = loop.now
        self._next = 0

    def begin(self) -> None:
        """Let all speak who are due, and come back for the next."""
        while self._due <= self._loop.now:
            agent = self._agents[self._next]
            self._next = (self._next + 1) % len(self._agents)
            if agent.waiting:
                self._tally.late += 1
            else:
                agent.turn(self._due)
            self._due += self._pause_s
        self._loop.at(max(self._due, self._loop.now + TICK_S), self.begin)
