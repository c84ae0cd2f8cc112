"""One process of the load: runs its agents from the first connection to the end."""

from __future__ import annotations

import gc
import itertools
import ssl
import time
from collections.abc import Sequence
from typing import Final

from benchmarks.load.agent import LoadAgent, Shared
from benchmarks.load.beats import begin_beats
from benchmarks.load.connection import Route
from benchmarks.load.paces import TICK_S, PacedDelivery, begin
from benchmarks.load.shared_state import LoadStage, SharedState
from benchmarks.load.work import Credentials, LoadTarget, LoadTotals, LoadWork
from benchmarks.loop import Loop

SOURCES: Final = 8
CONNECTING: Final = 100
"""Connections under way at a time, where agents do not arrive by themselves."""
READY_S: Final = 120.0


def run(
    work: LoadWork,
    gateways: Sequence[LoadTarget],
    credentials: Sequence[Credentials],
    process: int,
    shared_state: SharedState,
) -> None:
    """Run the agents of one process until the last stage. credentials: by the agents' numbers."""
    gc.disable()  # its pauses would count as the gateway's; nothing here is circular
    routes = _routes(work, gateways)
    shared = Shared(Loop(), work, LoadTotals(), shared_state.latencies)
    loop, totals = shared.loop, shared.totals
    agents = [
        LoadAgent(
            shared,
            routes[number % len(routes)],
            number,
            credentials[number] if credentials else None,
        )
        for number in work.numbers(process)
    ]

    def reached(stage: LoadStage) -> bool:
        shared_state.counts[:] = totals.values()
        return bool(shared_state.stage.value >= stage)

    if work.kept and not work.enrol:
        _connect(loop, totals, agents)
        loop.run(lambda: not reached(LoadStage.END) and totals.connected < len(agents))
    shared_state.ready.wait(READY_S)
    loop.now = time.perf_counter()
    begin(shared, agents)
    if work.beat_s is not None:
        begin_beats(shared, agents, work.beat_s)
    loop.run(lambda: not reached(LoadStage.DELIVER))
    if reached(LoadStage.END):
        return
    delivery = PacedDelivery(shared, agents)
    delivery.begin()

    def delivering() -> bool:
        if not work.leaving:  # those that leave are counted one by one
            totals.delivered = delivery.delivered()
        return not reached(LoadStage.END)

    loop.run(delivering)


def _routes(work: LoadWork, gateways: Sequence[LoadTarget]) -> list[Route]:
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


def _connect(loop: Loop, totals: LoadTotals, agents: Sequence[LoadAgent]) -> None:
    """Connect all, some at a time, so that none is turned away by a full backlog."""
    left = iter(agents)
    begun = 0

    def more() -> None:
        nonlocal begun
        for agent in itertools.islice(left, CONNECTING - (begun - totals.connected)):
            agent.connect()
            begun += 1
        if begun < len(agents):
            loop.at(loop.now + TICK_S, more)

    more()
