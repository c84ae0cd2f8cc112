"""One-row claims while others seed, or remove what has ended."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from benchmarks.cases.claims import MAX_ONE_S
from benchmarks.findings import Finding, Goal
from benchmarks.load.clients import BATCHED, Clients
from benchmarks.stage import POLL_S, Bench, Stage
from benchmarks.turns import frozen_in_turn, ratio
from taskq import Client
from taskq.model.errors import NotFound, Unavailable

_BEGIN_S: Final = 120.0
_MORE: Final = "/more"
#: Campaigns that are removed, one after the other.
_GONE: Final = ("/gone1", "/gone2", "/gone3")
_SEED: Final = f"""
import itertools, taskq
with taskq.connect() as queue:
    queue.campaign({_MORE!r}).seed({{"n": n}} for n in itertools.count())
"""
_REMOVE: Final = f"""
import taskq
with taskq.connect() as queue:
    for path in {_GONE!r}:
        queue.campaign(path).remove()
    while True:  # what is left of a short measurement
        again = queue.create_campaign("/again")
        again.seed({{"n": n}} for n in range(1_000))
        again.remove()
"""


def changed(bench: Bench) -> Iterator[Finding]:
    """Claim one row at a time, 8 clients, while tasks are seeded without end, then while removed.

    The process that does it, with the statement that it has begun, is frozen in turn.
    """
    with bench.stage() as stage:
        stage.add(_MORE)
        yield _beside(
            bench,
            stage,
            "tasks are seeded",
            _SEED,
            lambda: stage.client.campaign(_MORE).status().total > 0,
        )
    with bench.stage() as stage:
        for path in _GONE:
            stage.add(path)
            stage.seed(bench.scale.prioritised, path)
        yield _beside(
            bench,
            stage,
            f"{len(_GONE) * bench.scale.prioritised:,} tasks are removed",
            _REMOVE,
            lambda: _is_being_removed(stage.client, _GONE[0]),
        )


def _is_being_removed(client: Client, path: str) -> bool:
    try:
        return client.campaign(path).status().cancelled > 0
    except NotFound:
        return True


def _beside(
    bench: Bench, stage: Stage, what: str, program: str, begun: Callable[[], bool]
) -> Finding:
    seconds, rounds = bench.scale.seconds, bench.scale.rounds
    stage.seed(round(MAX_ONE_S * seconds * (2 * rounds + 1)))
    stage.settle()
    with (
        Clients(stage.database, BATCHED) as clients,
        going_on(stage, [sys.executable, "-c", program], begun) as leader,
    ):
        pairs = [frozen_in_turn(clients.rate, [leader], seconds) for _ in range(rounds)]
    return Finding(
        f"one task at a time, {BATCHED.total} clients, batched, while {what}",
        statistics.median(changing for changing, _ in pairs),
        "tasks/s",
        "nobody does that",
        statistics.median(alone for _, alone in pairs),
        ratio([changing / alone for changing, alone in pairs]),
        Goal(0.9),
    )


@contextmanager
def going_on(stage: Stage, words: list[str], begun: Callable[[], bool]) -> Iterator[int]:
    """Run a program that changes much; yield the leader of its process group once it has begun."""
    with subprocess.Popen(
        words, env=os.environ | {"TASKQ_DSN": stage.database.dsn}, start_new_session=True
    ) as process:
        try:
            deadline = time.monotonic() + _BEGIN_S
            while not begun():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise Unavailable("the program has changed nothing")
                time.sleep(POLL_S)
            yield process.pid
            if process.poll() is not None:
                raise Unavailable("the program has ended before the measurement")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
