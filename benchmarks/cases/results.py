"""Results as record batches of Arrow: how fast, and in how much memory."""

from __future__ import annotations

import multiprocessing
import os
import time
from array import array
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any, Final

import psycopg

from benchmarks.findings import Finding, Goal
from benchmarks.stage import Bench, Stage
from benchmarks.turns import compare
from taskq.api.client import Client
from taskq.compute.run import Run
from taskq.compute.trust import ResultReader
from taskq.db.catalogue import statement
from taskq.db.connections import Database
from taskq.planning.trial import CAMPAIGN
from taskq_agent.procfs import peak_bytes

MB: Final = 1 << 20


def arrow(bench: Bench) -> Iterator[Finding]:
    """Read results as record batches, next to COPY of the same rows, and the reader's memory."""
    rows = bench.scale.results
    with bench.stage() as stage:
        stage.database.execute("benchmarks.sql/results", campaign=_campaign(stage), rows=rows // 10)
        _, few_mb = _read_apart(stage, rows // 10)
    with bench.stage() as stage:
        stage.database.execute("benchmarks.sql/results", campaign=_campaign(stage), rows=rows)
        stage.settle()
        peaks: list[float] = []

        def ours() -> float:
            seconds, peak_mb = _read_apart(stage, rows)
            peaks.append(peak_mb)
            return rows / seconds

        compared = compare(ours, lambda: rows / _copied_s(stage), min(3, bench.scale.rounds))
    yield compared.finding("results as Arrow", "rows/s", "COPY to stdout", Goal(0.5))
    yield Finding(
        f"peak memory of the reader, {rows:,} rows",
        max(peaks),
        "MB",
        f"{rows // 10:,} rows",
        few_mb,
        goal=Goal(400.0, "most"),
    )


def _campaign(stage: Stage) -> int:
    return stage.client.campaign(CAMPAIGN).campaign_id


def _copied_s(stage: Stage) -> float:
    """Return the seconds in which COPY sends all results, and nobody looks at them."""
    with psycopg.connect(stage.database.dsn) as connection, connection.cursor() as cursor:
        began = time.perf_counter()
        with cursor.copy(statement("benchmarks.sql/copy_results").encode()) as copy:
            for _ in copy:
                pass
        return time.perf_counter() - began


def _read_apart(stage: Stage, rows: int) -> tuple[float, float]:
    """Read all results in a process of its own; return its seconds, and its peak memory in MB."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    reader = context.Process(target=_read, args=(stage.database.dsn, rows, there))
    reader.start()
    there.close()
    try:
        seconds, peak = here.recv()
    finally:
        reader.join()
    return seconds, peak


def _read(dsn: str, rows: int, tell: Connection) -> None:
    database = Database(dsn).open()
    campaign = Client(database).campaign(CAMPAIGN)
    first = next(campaign.results()).task_id
    tasks = array("q", range(first, first + rows))  # they were made by one statement
    run: Run[Any] = Run(database, campaign, "dock", tasks, read=ResultReader(), agents=[])
    began = time.perf_counter()
    read = sum(batch.num_rows for batch in run.arrow())
    seconds = time.perf_counter() - began
    database.close()
    if read != rows:
        raise RuntimeError(f"{read:,} of {rows:,} results were read")
    tell.send((seconds, peak_bytes(os.getpid()) / MB))
