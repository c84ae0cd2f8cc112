"""Savings of the shared cache of inputs: network traffic, and time until agents can begin.

The goals are the figures that BaBar reported of its caches: a third of the traffic, and a
start-up that is 30 % shorter.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.findings import Finding, Goal, Ratio
from benchmarks.stage import Bench, Stage
from taskq.dispatch.direct import DirectTransport
from taskq.planning.trial import CAMPAIGN
from taskq_agent.inputs import InputCache
from taskq_agent.protocol import Input

TRAFFIC: Final = Goal(1 / 3, "most", timed=False)
START_UP: Final = Goal(0.7, "most")
MEGA: Final = 1e6


@dataclass(slots=True)
class Counted:
    """A transport whose bytes are counted; thread-safe."""

    transport: DirectTransport
    bytes_read: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def read_blob(self, digest: str, offset: int) -> Iterator[bytes]:
        """Yield a blob from an offset to its end."""
        for chunk in self.transport.read_blob(digest, offset):
            with self.lock:
                self.bytes_read += len(chunk)
            yield chunk

    def write_blob(self, digest: str, data: bytes) -> None:
        """Store a blob."""
        self.transport.write_blob(digest, data)


def shared(bench: Bench) -> Iterator[Finding]:
    """Let 100 agents on 10 nodes fetch an input of 20 MB, with a cache per node and without."""
    scale = bench.scale
    agents, nodes = scale.input_agents, scale.input_nodes
    with bench.stage() as stage:
        receptor = bench.folder / "receptor"
        receptor.write_bytes(os.urandom(scale.input_bytes))
        wanted = stage.client.campaign(CAMPAIGN).add_input(receptor)
        bench.tell("every agent for itself")
        alone = _fetched(stage, wanted, [bench.folder / f"agent{n}" for n in range(agents)])
        bench.tell("a cache per node")
        cached = _fetched(stage, wanted, [bench.folder / f"node{n % nodes}" for n in range(agents)])
    what = f"{agents} agents on {nodes} nodes"
    yield _finding(f"traffic of inputs, {what}", "MB", cached.megabytes, alone.megabytes, TRAFFIC)
    yield _finding(f"start-up of an agent, {what}", "s", cached.wait_s, alone.wait_s, START_UP)


@dataclass(frozen=True, slots=True)
class InputCost:
    """megabytes: moved in all; wait_s: until an agent had its input, the mean of all."""

    megabytes: float
    wait_s: float


def _fetched(stage: Stage, wanted: Input, folders: list[Path]) -> InputCost:
    """Start an agent's fetch in each of these folders, all at once."""
    source = Counted(DirectTransport(stage.database))
    began = time.monotonic()

    def fetch(folder: Path) -> float:
        _, held = InputCache(folder, source).hold(wanted, time.sleep)
        os.close(held)
        return time.monotonic() - began

    with ThreadPoolExecutor(len(folders)) as threads:
        waits = list(threads.map(fetch, folders))
    for folder in set(folders):
        (folder / wanted.digest).unlink()
    return InputCost(source.bytes_read / MEGA, statistics.mean(waits))


def _finding(what: str, unit: str, cached: float, alone: float, goal: Goal) -> Finding:
    ratio = cached / alone
    return Finding(
        what,
        cached,
        unit,
        compared="every agent for itself",
        limit=alone,
        ratio=Ratio(ratio, ratio, ratio),
        goal=goal,
    )
