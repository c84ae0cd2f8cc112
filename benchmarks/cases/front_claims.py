"""Cost of claims with a front, in statements and under background load of PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Final

from benchmarks.cases.claims import MAX_ONE_S
from benchmarks.cases.front import crowd_of, doors, half_saturated, table_is_true
from benchmarks.findings import Finding, Goal
from benchmarks.latencies import share_within
from benchmarks.load.agent_load import AgentLoad, Seen
from benchmarks.load.clients import Clients
from benchmarks.load.work import LoadWork
from benchmarks.measurement import check
from benchmarks.stage import APART, Bench, Stage
from benchmarks.turns import compare
from benchmarks.unrest import unrest

IN_TIME_S: Final = 0.1
TELLING_S: Final = 11.0
"""Idle server processes report their statistics after ten seconds."""


def statements(bench: Bench) -> Iterator[Finding]:
    """Count the statements of PostgreSQL for a claimed task, next to one-row claims.

    All of them: the refiller's, the keeper's, and those with which a gateway looks after its
    agents. At half the rate that the gateway can serve without the front. The one-row claims are
    those of 8 clients that share nothing, whose reports go along; in a database of their own.
    """
    scale = bench.scale
    settling_s = min(TELLING_S, scale.exchange_every_s)
    with (
        bench.stage() as single,
        bench.stage() as stage,
        doors(bench, stage, stage.database.dsn) as two,
    ):
        crowd = crowd_of(stage, scale.agents, scale)
        work = half_saturated(bench, crowd, two.plain, scale.agents)

        def fronted() -> float:
            stage.top_up(round(MAX_ONE_S / 2 * (settling_s + scale.seconds)))
            with AgentLoad(work, two.front.addresses, crowd.credentials) as load:
                load.warm(settling_s)
                asked, claimed = _so_far(bench, stage), load.totals().claimed
                time.sleep(scale.seconds)
                asked, claimed = _so_far(bench, stage) - asked, load.totals().claimed - claimed
                crowd.add_totals(load.deliver())
            return asked / claimed

        def one_row() -> float:
            single.top_up(round(MAX_ONE_S / 2 * scale.seconds))
            before, asked = single.done(), _so_far(bench, single)
            with Clients(single.database, APART) as clients:
                clients.rate(scale.seconds)
            return (_so_far(bench, single) - asked) / (single.done() - before)

        compared = compare(fronted, one_row, scale.rounds)
        what = f"{work.rate:,.0f} claims due a second"
        yield compared.finding(
            f"statements for a claimed task, {what}", "", "one-row claims", Goal(0.01, "most")
        )
        yield table_is_true(bench, stage, crowd, what)


def exchanges(bench: Bench) -> Iterator[Finding]:
    """Report a task and claim one in each exchange, 512 agents, refill included, next to none."""
    scale, work = bench.scale, LoadWork(bench.scale.agents)
    with bench.stage() as stage, doors(bench, stage, stage.database.dsn) as two:
        crowd = crowd_of(stage, work.agents, scale)
        compared = compare(
            partial(crowd.rate, two.front, work), partial(crowd.rate, two.plain, work), scale.rounds
        )
        what = f"{work.agents} agents, full exchanges"
        yield compared.finding(what, "tasks/s", "without the front", Goal(1.0))
        yield table_is_true(bench, stage, crowd, what)


def unrested(bench: Bench) -> Iterator[Finding]:
    """Claim with 10,000,000 waiting and a server in unrest, next to a quiet small table.

    Unrest: checkpoints and vacuums without a pause, under a held snapshot, from the moment on at
    which the measurement begins; the agents are at work by then. The demand is half of
    what a gateway without a front can serve on the small table, and comes whether it is answered or
    not. What counts is the claims answered within a tenth of a second from when they were due: in a
    mere rate, late answers to a given demand would not show. The rate of agents that ask as fast as
    they can is reported too, without a goal: a vacuum takes the cores that gateway and load need.
    """
    scale = bench.scale
    with bench.stage() as large, bench.stage() as small:
        large.top_up(scale.tasks)
        small.top_up(scale.few)
        with (
            doors(bench, large, large.database.dsn) as busy,
            doors(bench, small, small.database.dsn) as quiet,
        ):
            many, few = (crowd_of(stage, scale.agents, scale) for stage in (large, small))
            due = half_saturated(bench, few, quiet.plain, scale.agents)

            def in_unrest(work: LoadWork) -> float:
                many.feed()
                with AgentLoad(work, busy.front.addresses, many.credentials) as load:
                    load.warm(many.warm_s)
                    with unrest(large.database):
                        seen = load.watch(scale.seconds)
                    many.add_totals(load.deliver())
                check(seen)
                return _in_time(seen)

            def at_rest(work: LoadWork) -> float:
                return _in_time(few.run(quiet.front, work).seen)

            waiting = f"{scale.tasks:,} waiting, checkpoints, vacuums, a held snapshot"
            for work, how, goal in (
                (due, f"of {due.rate:,.0f} due a second", Goal(0.95)),
                (LoadWork(scale.agents, spooled=True), "as fast as they can", None),
            ):
                compared = compare(partial(in_unrest, work), partial(at_rest, work), scale.rounds)
                what = f"claims within {1_000 * IN_TIME_S:g} ms, {how}; {waiting}"
                yield compared.finding(what, "claims/s", "a quiet small table", goal)
            yield table_is_true(bench, large, many, waiting)


def _in_time(seen: Seen) -> float:
    return seen.claim_rate * share_within(seen.latencies, IN_TIME_S)


def _so_far(bench: Bench, stage: Stage) -> int:
    """Return the statements of a database so far, asked for from another one."""
    (server,) = stage.database.rows("benchmarks.sql/server")
    return int(bench.server.value("benchmarks.sql/statements", database=server["database"]))
