"""Bytes of WAL and disk of a task over its whole life."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from benchmarks.findings import Finding, Goal
from benchmarks.load.clients import Load
from benchmarks.stage import APART, Bench
from taskq.model.errors import ServerUnsuitable
from taskq.planning.trial import CAMPAIGN

LIVES: Final = (
    ("one at a time", APART),
    ("batches of 100", Load(2, 1, 100, CAMPAIGN)),
)
AIM: Final = Goal(1_200, "most")


def life(bench: Bench) -> Iterator[Finding]:
    """Seed, claim and report tasks of 100 bytes of payload: bytes of log and of disk for each.

    Right after a checkpoint, so that whole pages that the log has to hold are in the figure.
    """
    tasks = bench.scale.lives
    for how, load in LIVES:
        with bench.stage() as stage:
            with suppress(ServerUnsuitable):  # not everybody may; then there are fewer such pages
                stage.database.execute("benchmarks.sql/checkpoint")
            before = stage.database.rows("benchmarks.sql/wal")[0]
            stage.seed(tasks)
            stage.finish(load, tasks)
            after = stage.database.rows("benchmarks.sql/wal")[0]
        spent = {name: after[name] - before[name] for name in before}
        yield Finding(
            f"log of a task's life, {how}",
            spent["bytes"] / tasks,
            "bytes",
            goal=AIM,
            note=f"whole pages in it {spent['images'] / tasks:.3f}",
        )
        yield Finding(f"disk for a task, {how}", spent["size"] / tasks, "bytes")
