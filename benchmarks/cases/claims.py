"""Claims and reports, compared with the limit of the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

from benchmarks.findings import Finding, Goal, not_measured
from benchmarks.load import clients
from benchmarks.load.clients import BATCHED, Load
from benchmarks.pooler import NoPooler, pooled
from benchmarks.raw import LEAST_S, Raw, pgbench
from benchmarks.stage import APART, Bench
from benchmarks.turns import compare
from taskq.model.errors import Conflict
from taskq.planning.trial import CAMPAIGN

# More tasks a second than anybody has seen, so that enough are waiting.
MAX_ONE_S: Final = 40_000
MAX_BATCH_S: Final = 150_000


def one_row(bench: Bench) -> Iterator[Finding]:
    """Report the last task and claim the next in one exchange, 8 clients of one process.

    And 8 clients that share nothing, each with a connection, four in a process: for comparison.
    """
    yield from _one_at_a_time(bench, BATCHED, 1.0)
    yield from _one_at_a_time(bench, APART, None)
    yield from _by_pgbench(bench, APART.total)


def connections(bench: Bench) -> Iterator[Finding]:
    """Do the same on 256 connections."""
    load = _many_clients(bench)
    yield from _one_at_a_time(bench, load, 1.0)
    yield from _by_pgbench(bench, load.total)


def through_pooler(bench: Bench) -> Iterator[Finding]:
    """Do the same on 256 connections to PgBouncer in transaction mode."""
    load = replace(_many_clients(bench), pooled=True)
    try:
        yield from _one_at_a_time(bench, load, 0.8)
    except NoPooler as error:
        yield not_measured(f"the same, {load.total} clients of PgBouncer", str(error))


def batches(bench: Bench) -> Iterator[Finding]:
    """Report and claim a hundred tasks in an exchange, 2 processes."""
    scale, load = bench.scale, Load(2, 1, 100, CAMPAIGN)
    need, raw_need = needs(MAX_BATCH_S, scale.seconds)
    with bench.stage() as stage:
        raw = Raw(stage.database, bench.folder)
        stage.top_up(need)
        raw.top_up(raw_need)
        stage.settle()

        def our_rate() -> float:
            stage.top_up(need)
            return clients.rate(stage.database, load, scale.seconds)

        def raw_rate() -> float:
            rates = []
            for count in (1, 8):
                raw.top_up(raw_need)
                rates.append(raw.rate("batch", count, scale.seconds))
            return max(rates)

        compared = compare(our_rate, raw_rate, scale.rounds)
    yield compared.finding(
        "batches of 100, 2 processes", "tasks/s", "raw batch, best of 1 and 8 clients", Goal(0.6)
    )


def kept_open(bench: Bench) -> Iterator[Finding]:
    """Claim and complete by SQL on a connection kept open, next to a new one for each task.

    AMGA's study compares the two as well. Both speak `claim` and `complete` through pgbench.
    """
    scale = bench.scale
    _, need = needs(MAX_ONE_S, scale.seconds)  # pgbench speaks here too
    with bench.stage() as stage, clients.session(stage.database, CAMPAIGN) as (_, session):

        def rate(protocol: str, *options: str) -> float:
            stage.top_up(need)
            return pgbench(
                stage.database.dsn,
                "verbs",
                bench.folder,
                f"--client={BATCHED.total}",
                "--jobs=2",
                f"--time={max(LEAST_S, round(scale.seconds))}",
                f"--protocol={protocol}",
                f"--define=session={session}",
                *options,
            )

        compared = compare(lambda: rate("prepared"), lambda: rate("extended", "--connect"), 1)
    yield Finding(
        "claim and complete by SQL, connections kept open",
        compared.ours,
        "tasks/s",
        "a connection for each task",
        compared.limit,
        compared.ratio,
    )


def _many_clients(bench: Bench) -> Load:
    processes = 2
    return Load(processes, max(1, bench.scale.connections // processes), 1, CAMPAIGN)


def _one_at_a_time(bench: Bench, load: Load, at_least: float | None) -> Iterator[Finding]:
    scale, count = bench.scale, load.total
    need, raw_need = needs(MAX_ONE_S, scale.seconds)
    with ExitStack() as entered:
        stage = entered.enter_context(bench.stage())
        door = entered.enter_context(pooled(stage.database)) if load.pooled else stage.database
        raw = Raw(stage.database, bench.folder)
        stage.top_up(need)
        raw.top_up(raw_need)
        stage.settle()

        def our_rate() -> float:
            stage.top_up(need)
            return clients.rate(door, load, scale.seconds)

        def raw_rate() -> float:
            raw.top_up(raw_need)
            return raw.rate("one", count, scale.seconds)

        compared = compare(our_rate, raw_rate, scale.rounds)
    way = "batched" if load.batched else f"{count} connections"
    yield compared.finding(
        f"one task at a time, {count} clients, {way}{' to PgBouncer' if load.pooled else ''}",
        "tasks/s",
        f"raw one-row, {count} clients",
        None if at_least is None else Goal(at_least),
    )


def _by_pgbench(bench: Bench, count: int) -> Iterator[Finding]:
    """Make the same exchanges with the program that measures the limit: the server's part alone."""
    scale = bench.scale
    need, raw_need = needs(MAX_ONE_S, max(LEAST_S, scale.seconds))
    with bench.stage() as stage, clients.session(stage.database, CAMPAIGN) as (_, session):
        raw = Raw(stage.database, bench.folder)
        stage.top_up(need)
        raw.top_up(raw_need)
        stage.settle()
        campaign = stage.client.campaign(CAMPAIGN).campaign_id

        def our_rate() -> float:
            stage.top_up(need)
            return pgbench(
                stage.database.dsn,
                "exchange",
                bench.folder,
                f"--client={count}",
                f"--jobs={min(count, 2)}",
                f"--time={max(LEAST_S, round(scale.seconds))}",
                "--protocol=prepared",
                f"--define=session={session}",
                f"--define=campaign={campaign}",
                "--define=task=0",
            )

        def raw_rate() -> float:
            raw.top_up(raw_need)
            return raw.rate("one", count, scale.seconds)

        compared = compare(our_rate, raw_rate, scale.rounds)
        if stage.client.campaign(CAMPAIGN).status().working > count * scale.rounds:
            raise Conflict("reports were not accepted, so the figure means nothing")
    yield compared.finding(
        f"the same exchanges, {count} connections of pgbench",
        "tasks/s",
        f"raw one-row, {count} clients",
        None,
    )


def needs(per_second: int, seconds: float) -> tuple[int, int]:
    """Return how many tasks, and how many bare rows, a measurement uses up at most."""
    return round(per_second * seconds), round(per_second * max(LEAST_S, seconds))
