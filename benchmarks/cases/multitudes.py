"""Thousands of agents that are connected, arrive, or wait."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Final

from benchmarks import processes
from benchmarks.findings import Finding, Goal
from benchmarks.gateways import running_gateways
from benchmarks.load import sessions
from benchmarks.load.agent_load import READY_S, AgentLoad
from benchmarks.load.work import LoadWork
from benchmarks.measurement import CpuSpent
from benchmarks.stage import Bench, Stage
from taskq.planning.trial import CAMPAIGN

GATEWAYS: Final = 2
PROCESSES: Final = 2
"""Of the load; one may open no more files than a gateway."""

LONG_POLL_S: Final = 50.0
ARRIVE_S: Final = 1.0
MB: Final = 1_000_000


def connected(bench: Bench) -> Iterator[Finding]:
    """Keep 20,000 agents of two gateways connected, each with an exchange every 30 s."""
    scale = bench.scale
    work = LoadWork(scale.agents_all, PROCESSES, rate=scale.agents_all / scale.exchange_every_s)
    with (
        bench.stage() as stage,
        running_gateways(stage.database.dsn, GATEWAYS, bench.folder) as gateways,
    ):
        stage.seed(work.agents * 4)
        stage.settle()
        with AgentLoad(
            work, gateways.addresses, sessions.opened(stage.database, CAMPAIGN, work.agents)
        ) as load:
            load.warm(0)  # the first exchange of each only claims
            seen = load.watch(scale.exchange_every_s)
            held = processes.memory(*gateways.pids)
            totals = load.totals()
    what = f"{work.agents:,} agents of {GATEWAYS} gateways, {work.rate:,.0f} exchanges a second"
    events = {"connections opened again": totals.reopened} | totals.errors
    yield Finding(
        f"errors, {what}",
        sum(totals.errors.values()),
        "",
        goal=Goal(0, "most"),
        note=", ".join(f"{count:,} {kind}" for kind, count in events.items()),
    )
    yield Finding(f"exchanges answered a second, {what}", seen.rate, "")
    yield Finding(f"half of the answers within, {what}", 1_000 * seen.p50_s, "ms")
    yield Finding(
        f"99 of 100 answers within, {what}", 1_000 * seen.p99_s, "ms", goal=Goal(100, "most")
    )
    yield Finding(f"memory of the gateways, {what}", held / MB, "MB", goal=Goal(1_000, "most"))


def arriving(bench: Bench) -> Iterator[Finding]:
    """Let 10,000 agents connect, open a session and claim within one second."""
    count = bench.scale.agents_arriving
    with bench.stage() as stage, running_gateways(stage.database.dsn, 1, bench.folder) as gateways:
        stage.seed(2 * count)
        stage.settle()
        token = sessions.enrolment_token(stage.database, CAMPAIGN)
        work = LoadWork(
            count, PROCESSES, spread_s=ARRIVE_S, enrol=token, campaign=CAMPAIGN, content=True
        )
        root = processes.server_process(stage.database)
        with AgentLoad(work, gateways.addresses) as load:
            before = CpuSpent.so_far(root, gateways, load)
            served_s = load.wait(lambda totals: totals.served + totals.refused >= count, READY_S)
            spent = CpuSpent.so_far(root, gateways, load).since(before)
            totals = load.totals()
    what = f"{count:,} agents that arrive within a second"
    yield Finding(
        f"the last of {what} has a task after",
        served_s,
        "s",
        goal=Goal(30, "most"),
        note=f"turned away {totals.busy:,} times, not connected {totals.broken:,} times; "
        f"{spent.of_each(count)}, of the load {spent.clients:.1f} s",
    )
    yield Finding(
        f"refused for good of {what}",
        totals.refused,
        "",
        goal=Goal(0, "most", timed=False),
    )


def leaving(bench: Bench) -> Iterator[Finding]:
    """Let 20,000 agents report their last task and end their sessions within one second."""
    count = bench.scale.agents_all
    work = LoadWork(count, PROCESSES, spread_s=ARRIVE_S, content=True, leaving=True)
    with (
        bench.stage() as stage,
        running_gateways(stage.database.dsn, GATEWAYS, bench.folder) as gateways,
    ):
        stage.seed(2 * count)
        stage.settle()
        credentials = sessions.opened(stage.database, CAMPAIGN, count)
        root = processes.server_process(stage.database)
        with AgentLoad(work, gateways.addresses, credentials) as load:
            load.wait(lambda totals: totals.served == count, READY_S)
            before, spent = load.totals(), CpuSpent.so_far(root, gateways, load)
            left_s = load.leave()
            spent = CpuSpent.so_far(root, gateways, load).since(spent)
            totals = load.totals().since(before)
        done = stage.done()
    what = f"{count:,} agents of {GATEWAYS} gateways that leave within a second"
    yield Finding(
        f"the last of {what} has left after",
        left_s,
        "s",
        goal=Goal(15, "most"),
        note=f"turned away {totals.busy:,} times, not connected {totals.broken:,} times; "
        f"{spent.of_each(count)}, of the load {spent.clients:.1f} s",
    )
    yield Finding(
        f"reports of {what} that are lost", count - done, "", goal=Goal(0, "most", timed=False)
    )


def idle(bench: Bench) -> Iterator[Finding]:
    """Let 20,000 agents of two gateways wait for tasks: statements, and how fast one is claimed."""
    scale = bench.scale
    work = LoadWork(
        scale.agents_all, PROCESSES, wait_s=LONG_POLL_S, beat_s=scale.exchange_every_s, content=True
    )
    what = f"{work.agents:,} idle agents of {GATEWAYS} gateways"
    with (
        bench.stage() as stage,
        running_gateways(stage.database.dsn, GATEWAYS, bench.folder) as gateways,
    ):
        # Somebody works on it meanwhile: for a campaign that is finished nobody would wait.
        stage.seed(1)
        credentials = sessions.opened(stage.database, CAMPAIGN, work.agents)
        with AgentLoad(work, gateways.addresses, credentials) as load:
            load.wait(lambda totals: totals.asked >= work.agents, READY_S)
            # Idle connections tell of what they have done before after 10 s.
            time.sleep(scale.exchange_every_s)
            a_second, beats = _statements(bench, stage, load)
            waited = [_claimed_s(stage, load) for _ in range(scale.rounds)]
    yield Finding(
        f"statements a second, {what}",
        a_second,
        "",
        goal=Goal(5, "most"),
        note=f"{beats:,.0f} heartbeats a second",
    )
    yield Finding(
        f"a task is claimed after at most, {what}",
        max(waited, default=math.nan),
        "s",
        goal=Goal(1, "most"),
        note=f"of {len(waited)} seeded one by one",
    )


def _statements(bench: Bench, stage: Stage, load: AgentLoad) -> tuple[float, float]:
    """Return the statements of the database and the heartbeats of the agents, a second."""
    (server,) = stage.database.rows("benchmarks.sql/server")

    def so_far() -> int:
        # Asked from another database, so that the question does not count.
        return int(bench.server.value("benchmarks.sql/statements", database=server["database"]))

    before = so_far()
    seen = load.watch(bench.scale.exchange_every_s)
    return (so_far() - before) / seen.seconds, seen.totals.beats / seen.seconds


def _claimed_s(stage: Stage, load: AgentLoad) -> float:
    """Return the time from seeding a task until an agent has it."""
    claimed = load.totals().claimed
    began = time.perf_counter()
    stage.seed(1)
    load.wait(lambda totals: totals.claimed > claimed, READY_S)
    return time.perf_counter() - began
