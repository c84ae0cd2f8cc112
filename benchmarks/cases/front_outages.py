"""Effects on agents when PostgreSQL restarts, and when Redis is flushed or killed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final

from benchmarks.cases.front import crowd_of, doors, table_is_true
from benchmarks.findings import Finding, Goal
from benchmarks.load.agent_load import READY_S, AgentLoad
from benchmarks.load.work import LoadWork
from benchmarks.own_server import own_server
from benchmarks.redis import Redis
from benchmarks.stage import Bench, Stage
from benchmarks.turns import ratio
from taskq.db.connections import Database
from taskq.model.errors import Conflict

A_SECOND_EACH: Final = 2.0
"""Claims of an agent, where the pool is to last for a while."""
DOWN_S: Final = 2.0
"""For how long a killed Redis stays away."""
POLL_S: Final = 0.01
POOL_S: Final = 30.0


def restarted(bench: Bench) -> Iterator[Finding]:
    """Claim on while PostgreSQL restarts, until the pool is empty; the reports wait.

    On a server of its own, which is down for as long as there is anything in the pool.
    """
    scale = bench.scale
    work = LoadWork(scale.agents, rate=A_SECOND_EACH * scale.agents, random=True, spooled=True)
    stocked, claimed, resumed_s = [], [], []
    with own_server() as server, closing(Database(server.up().dsn).open()) as database:
        stage = Stage(database, bench.tell)
        with doors(bench, stage, stage.database.dsn) as two:
            crowd = crowd_of(stage, work.agents, scale)
            for _ in range(scale.rounds):
                crowd.feed()
                with AgentLoad(work, two.front.addresses, crowd.credentials) as load:
                    load.warm(scale.seconds)
                    _wait(two.redis, until_empty=False)
                    server.down(immediate=True)  # a checkpoint would give the pool time to empty
                    stocked.append(_stocked(two.redis))
                    before = load.totals().claimed
                    _wait(two.redis, until_empty=True)
                    claimed.append(load.totals().claimed - before)
                    server.up()
                    resumed_s.append(_claimed_again_s(load))
                    crowd.add_totals(load.deliver())
            yield Finding(
                "tasks claimed between the end and the return of PostgreSQL",
                statistics.median(claimed),
                "",
                "in the pool at its end",
                statistics.median(stocked),
                ratio([got / had for got, had in zip(claimed, stocked, strict=True)]),
                Goal(0.95),
            )
            yield Finding("claims go on after its return within", statistics.median(resumed_s), "s")
            yield table_is_true(bench, stage, crowd, "PostgreSQL restarted")


def flushed(bench: Bench) -> Iterator[Finding]:
    """Report and claim right after FLUSHALL, next to before, 512 agents."""
    yield from _struck(bench, "FLUSHALL", lambda redis: redis.flush(), Goal(0.9))


def killed(bench: Bench) -> Iterator[Finding]:
    """Report and claim right after SIGKILL of Redis, which is away for 2 s, next to before."""
    down_s = min(DOWN_S, bench.scale.seconds / 2)

    def kill(redis: Redis) -> None:
        redis.kill()
        time.sleep(down_s)
        redis.start()

    yield from _struck(bench, f"SIGKILL of Redis, back after {down_s:g} s", kill, Goal(0.5))


def _struck(
    bench: Bench, what: str, strike: Callable[[Redis], None], goal: Goal
) -> Iterator[Finding]:
    """Compare the rates in the seconds before and after something befalls Redis."""
    scale, work = bench.scale, LoadWork(bench.scale.agents)
    before, after, troubles = [], [], 0
    with bench.stage() as stage, doors(bench, stage, stage.database.dsn) as two:
        crowd = crowd_of(stage, work.agents, scale, windows=3)
        for _ in range(scale.rounds):
            crowd.feed()
            with AgentLoad(work, two.front.addresses, crowd.credentials) as load:
                load.warm(scale.seconds)
                before.append(load.watch(scale.seconds).rate)
                after.append(_rate(load, lambda: strike(two.redis), scale.seconds))
                totals = load.deliver()
            crowd.add_totals(totals)
            troubles += sum(totals.errors.values())
        yield Finding(
            f"{work.agents} agents, full exchanges in the {scale.seconds:g} s from {what}",
            statistics.median(after),
            "tasks/s",
            "before",
            statistics.median(before),
            ratio([late / early for late, early in zip(after, before, strict=True)]),
            goal,
        )
        yield Finding(f"errors that agents met with, {what}", troubles, "", goal=Goal(0, "most"))
        yield table_is_true(bench, stage, crowd, what)


def _rate(load: AgentLoad, strike: Callable[[], None], seconds: float) -> float:
    """Return the tasks reported a second from the moment on at which something is done."""
    before, began = load.totals().reported, time.perf_counter()
    strike()
    time.sleep(max(0.0, began + seconds - time.perf_counter()))
    return (load.totals().reported - before) / (time.perf_counter() - began)


def _claimed_again_s(load: AgentLoad) -> float:
    """Return the time until something more is claimed."""
    so_far = load.totals().claimed
    return load.wait(lambda totals: totals.claimed > so_far, READY_S)


def _stocked(redis: Redis) -> int:
    """Return how many tasks are in the pool; raise `Conflict` if there are none."""
    entries = redis.entries()
    if not entries:
        raise Conflict("the pool was empty when PostgreSQL ended, so there is nothing to see")
    return entries


def _wait(redis: Redis, *, until_empty: bool) -> None:
    """Wait until the pool is empty, or is not, but not for ever."""
    deadline = time.monotonic() + POOL_S
    while bool(redis.entries()) == until_empty and time.monotonic() < deadline:
        time.sleep(POLL_S)
