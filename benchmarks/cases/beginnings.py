"""Calls that follow one another in a campaign that has just begun, through a gateway.

Medians over a long run hide what a young campaign costs, so each round begins a new one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import taskq
from benchmarks.findings import Finding, Goal
from benchmarks.gateways import running_gateways
from benchmarks.latencies import BUCKETS, bucket, quantile_s
from benchmarks.stage import Bench

SLOTS: Final = (1, 2, 8)
#: Calls of each campaign behind the first, which starts the children and counts nothing.
CALLS: Final = 20
SHARE: Final = 0.95
LATENCY_MS: Final = 40.0
WAIT_S: Final = 60.0


def sequential(bench: Bench) -> Iterator[Finding]:
    """Call one function after the other in new campaigns, at agents of a gateway."""
    for slots in SLOTS:
        with (
            bench.stage() as stage,
            running_gateways(stage.database.dsn, 1, bench.folder) as gateways,
        ):
            host, port = gateways.addresses[0]
            url, tokens = f"http://{host}:{port}", stage.client.tokens
            site = _written(bench.folder / "site", tokens.create("site", "site", ["/"])[0])
            sender = tokens.create("pickler", "sender", ["/"])[0]
            pickler = _written(bench.folder / "pickler", sender)
            with (
                _agent(url, site, slots, bench.folder / "agent.log"),
                taskq.connect(url, token_file=pickler) as queue,
            ):
                took = [0] * BUCKETS
                for number in range(bench.scale.young):
                    for seconds in _campaign(queue, f"/new{number}")[1:]:
                        took[bucket(seconds)] += 1
        what = f"calls from the second of a new campaign on, {slots} slots, 95th percentile"
        within_ms = 1_000 * quantile_s(took, SHARE)
        yield Finding(what, within_ms, "ms", goal=Goal(LATENCY_MS, "most"))


def _campaign(queue: taskq.Client, path: str) -> Sequence[float]:
    """Return the seconds of calls of a new campaign, each after the result of the last."""
    took: list[float] = []
    with taskq.Executor(queue, path=path) as executor:
        for number in range(1 + CALLS):
            began = time.perf_counter()
            executor.submit(abs, number).result(WAIT_S)
            took.append(time.perf_counter() - began)
    return took


@contextmanager
def _agent(url: str, token: Path, slots: int, log: Path) -> Iterator[None]:
    words = ["run", "--gateway", url, "--token-file", str(token), "--slots", str(slots)]
    env = {name: it for name, it in os.environ.items() if not name.startswith("TASKQ_")}
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "taskq_agent", *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=env,
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _written(file: Path, text: str) -> Path:
    file.touch(0o600)
    file.write_text(text)
    return file
