"""Throughput of gateways: agents make as many exchanges as they can."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Final

from benchmarks import measurement, processes
from benchmarks.cases.claims import MAX_BATCH_S, MAX_ONE_S, needs
from benchmarks.findings import Finding, Goal, not_measured
from benchmarks.gateways import RunningGateways, make_certificate, running_gateways
from benchmarks.load import sessions
from benchmarks.load.agent_load import WARM_S
from benchmarks.load.work import Credentials, LoadTotals, LoadWork
from benchmarks.measurement import US, LoadRun
from benchmarks.raw import LEAST_S, Raw
from benchmarks.stage import Bench, Stage
from benchmarks.turns import compare, ratio
from taskq.planning.trial import CAMPAIGN

RAW_CLIENTS: Final = 8
BATCH: Final = 50
SEVERAL: Final = (2, 3)
CPU: Final = "CPU time of PostgreSQL and gateway for a task, {} agents"


class Crowd:
    """The sessions of many agents on a stage, which has enough waiting tasks before each run.

    acknowledged: number of reports whose acceptance the agents know.
    """

    def __init__(
        self,
        stage: Stage,
        count: int,
        seconds: float,
        most_a_second: int = MAX_ONE_S,
        warm_s: float = WARM_S,
    ) -> None:
        self._stage = stage
        self._seconds = seconds
        self.warm_s = warm_s
        self._need, _ = needs(most_a_second, seconds + warm_s)
        self.credentials: tuple[Credentials, ...] = sessions.opened(stage.database, CAMPAIGN, count)
        self.acknowledged = 0

    def rate(self, gateways: RunningGateways, work: LoadWork) -> float:
        """Return the tasks reported a second."""
        return self.run(gateways, work).seen.rate

    def run(self, gateways: RunningGateways, work: LoadWork) -> LoadRun:
        """Let the first of them work, as many as the work is for; see `measurement.run`."""
        self.feed()
        done = measurement.run(
            self._stage.database,
            gateways,
            work,
            self.credentials,
            self._seconds,
            warm_s=self.warm_s,
        )
        self.add_totals(done.totals)
        return done

    def add_totals(self, totals: LoadTotals) -> None:
        """Add the totals of agents that another object runs."""
        self.acknowledged += totals.reported + totals.known

    def feed(self) -> None:
        """Add tasks until enough are waiting."""
        self._stage.top_up(self._need)
        self._stage.settle()

    def lost(self) -> int:
        """Return how many tasks were acknowledged as done, and are not."""
        return max(0, self.acknowledged - self._stage.done())


def many(bench: Bench) -> Iterator[Finding]:
    """Report a task and claim one in each exchange, 512 agents of one gateway."""
    yield from _one_at_a_time(bench, bench.scale.agents, 3.0)


def few(bench: Bench) -> Iterator[Finding]:
    """Do the same with 64 agents."""
    yield from _one_at_a_time(bench, bench.scale.agents_few, 2.0)


def encrypted(bench: Bench) -> Iterator[Finding]:
    """Do the same with 512 agents over TLS, next to plain HTTP."""
    scale, work = bench.scale, LoadWork(bench.scale.agents)
    with bench.stage() as stage, ExitStack() as entered:
        certificate = make_certificate(bench.folder)
        dsn = stage.database.dsn
        plain = entered.enter_context(running_gateways(dsn, 1, bench.folder))
        secret = entered.enter_context(running_gateways(dsn, 1, bench.folder, certificate))
        crowd = Crowd(stage, work.agents, scale.seconds)
        compared = compare(
            lambda: crowd.rate(secret, replace(work, authority=certificate.file)),
            lambda: crowd.rate(plain, work),
            scale.rounds,
        )
    yield compared.finding(
        f"{work.agents} agents of one gateway, TLS", "tasks/s", "plain HTTP", Goal(0.8)
    )


def batches(bench: Bench) -> Iterator[Finding]:
    """Report and claim 50 tasks in each exchange, 64 agents of one gateway."""
    scale, work = bench.scale, LoadWork(bench.scale.agents_few, want=BATCH)
    _, raw_need = needs(MAX_BATCH_S, scale.seconds)
    with bench.stage() as stage, running_gateways(stage.database.dsn, 1, bench.folder) as gateways:
        raw = Raw(stage.database, bench.folder)
        crowd = Crowd(stage, work.agents, scale.seconds, MAX_BATCH_S)

        def raw_rate() -> float:
            rates = []
            for clients in (1, RAW_CLIENTS):
                raw.top_up(raw_need)
                rates.append(raw.rate("batch", clients, scale.seconds))
            return max(rates)

        compared = compare(lambda: crowd.rate(gateways, work), raw_rate, scale.rounds)
    yield compared.finding(
        f"{work.agents} agents of one gateway, {BATCH} tasks in each exchange",
        "tasks/s",
        f"raw batch, best of 1 and {RAW_CLIENTS} clients",
        Goal(0.4),
    )


def several(bench: Bench) -> Iterator[Finding]:
    """Spread 512 agents over two and three gateways, next to one; count what gets lost."""
    scale, work = bench.scale, LoadWork(bench.scale.agents)
    with (
        bench.stage() as stage,
        running_gateways(stage.database.dsn, max(SEVERAL), bench.folder) as gateways,
    ):
        crowd = Crowd(stage, work.agents, scale.seconds)
        for count in SEVERAL:
            compared = compare(
                partial(crowd.rate, gateways.first(count), work),
                partial(crowd.rate, gateways.first(1), work),
                scale.rounds,
            )
            what = f"{work.agents} agents of {count} gateways"
            yield compared.finding(what, "tasks/s", "of one", None)
        yield Finding(
            f"tasks acknowledged and not done, {work.agents} agents of one to three gateways",
            crowd.lost(),
            "",
            goal=Goal(0, "most", timed=False),
        )


def _one_at_a_time(bench: Bench, count: int, at_least: float) -> Iterator[Finding]:
    scale, work = bench.scale, LoadWork(count)
    _, raw_need = needs(MAX_ONE_S, scale.seconds)
    ours_us: list[float | None] = []
    raw_us: list[float] = []
    with bench.stage() as stage, running_gateways(stage.database.dsn, 1, bench.folder) as gateways:
        raw = Raw(stage.database, bench.folder)
        crowd = Crowd(stage, count, scale.seconds)
        root = processes.server_process(stage.database)

        def our_rate() -> float:
            done = crowd.run(gateways, work)
            ours_us.append(done.cpu_us)
            return done.seen.rate

        def raw_rate() -> float:
            raw.top_up(raw_need)
            before = processes.cpu_s(root) if root else 0.0
            rate, clients = measurement.spent_by_children(
                lambda: raw.rate("one", RAW_CLIENTS, scale.seconds)
            )
            spent = clients + (processes.cpu_s(root) if root else 0.0) - before
            raw_us.append(US * spent / (rate * max(LEAST_S, round(scale.seconds))))
            return rate

        compared = compare(our_rate, raw_rate, scale.rounds)
    yield compared.finding(
        f"{count} agents of one gateway, one task in each exchange",
        "tasks/s",
        f"raw one-row, {RAW_CLIENTS} clients",
        Goal(at_least),
    )
    yield _cpu(count, [us for us in ours_us if us is not None], raw_us)


def _cpu(count: int, ours_us: list[float], raw_us: list[float]) -> Finding:
    what = CPU.format(count)
    if not ours_us:
        return not_measured(what, "the server is on another machine")
    return Finding(
        what,
        statistics.median(ours_us),
        "µs",
        "of PostgreSQL and pgbench, raw one-row",
        statistics.median(raw_us),
        ratio([own / bound for own, bound in zip(ours_us, raw_us, strict=True)]),
    )
