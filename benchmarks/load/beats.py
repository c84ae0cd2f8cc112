"""The heartbeats of the agents of a process, in turn.

On a tenth of the connections that agents have for it, since a process could not open so many files.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from typing import Final

from benchmarks.load import messages
from benchmarks.load.agent import OK, RETRY_S, LoadAgent, Shared
from benchmarks.load.connection import LoadConnection
from benchmarks.load.messages import Response
from benchmarks.load.work import LoadTarget

LONGEST_S: Final = 3.0
"""Longest answer with which the heartbeats keep up: gateways batch them."""


def begin_beats(shared: Shared, agents: Sequence[LoadAgent], beat_s: float) -> None:
    """Let each of some agents beat so often, evenly spread, at the gateway that it speaks with."""
    by_gateway: dict[LoadTarget, list[LoadAgent]] = {}
    for agent in agents:
        by_gateway.setdefault(agent.route.gateway, []).append(agent)
    for group in by_gateway.values():
        count = min(len(group), math.ceil(len(group) * LONGEST_S / beat_s))
        for number in range(count):
            _Speaker(shared, group[number::count], beat_s)


class _Speaker:
    """Beats for some agents on one connection, for one after the other."""

    def __init__(self, shared: Shared, agents: Sequence[LoadAgent], beat_s: float) -> None:
        route = agents[0].route
        self._shared = shared
        self._host = f"{route.gateway.host}:{route.gateway.port}"
        self._agents = itertools.cycle(agents)
        self._pause_s = beat_s / len(agents)
        self._due = shared.loop.now + random.uniform(0.0, self._pause_s)  # noqa: S311  # spreads them
        self._connection = LoadConnection(
            shared.loop,
            route,
            shared.totals,
            opened=lambda: None,
            answered=self._answered,
            lost=self._lost,
        )
        shared.loop.at(self._due, self._speak)

    def _speak(self) -> None:
        agent = next(self._agents)
        if agent.credentials is None:
            self._rest()
            return
        self._connection.send(
            messages.beat(agent.credentials, self._host, agent.tasks, agent.drawn)
        )

    def _answered(self, response: Response) -> None:
        self._shared.totals.beats += response.status == OK
        self._shared.totals.failed += response.status != OK
        self._rest()

    def _lost(self) -> None:
        self._shared.totals.broken += 1
        self._due = self._shared.loop.now + RETRY_S
        self._rest()

    def _rest(self) -> None:
        self._due = max(self._due + self._pause_s, self._shared.loop.now)
        self._shared.loop.at(self._due, self._speak)
