"""One-row claims while the priorities of all that waits are changed."""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from benchmarks.cases.changes import going_on
from benchmarks.cases.claims import MAX_ONE_S
from benchmarks.findings import Finding, Goal
from benchmarks.load.clients import BATCHED, Clients, rate
from benchmarks.stage import Bench, Stage
from benchmarks.turns import frozen_in_turn, ratio
from taskq.planning.trial import CAMPAIGN

_PROGRAM: Final = "from taskq_cli.main import main; main()"
_AGAIN: Final = """
import subprocess, sys
for best in ("lowest", "highest") * 1000:
    subprocess.run([*sys.argv[1:], f"--{best}"], check=True, stdout=subprocess.DEVNULL)
"""
"""One run of the command after the other, each of which turns the order round."""


def changed(bench: Bench) -> Iterator[Finding]:
    """Claim one row at a time, 8 clients, while `taskq prioritise` gives all that waits an order.

    The command, and the statement that it has begun, are frozen in turn, many times. What is left
    of a change when it is done is measured by the same claims before it and after some of it.
    """
    seconds, rounds = bench.scale.seconds, bench.scale.rounds
    with bench.stage() as stage:
        stage.seed(round(MAX_ONE_S * seconds))  # what is claimed before
        scores = _scores(stage, bench.folder / "scores.csv", bench.scale.prioritised)
        stage.seed(round(MAX_ONE_S * seconds * rounds))
        stage.settle()
        before = rate(stage.database, BATCHED, seconds)
        with (
            going_on(
                stage,
                [sys.executable, "-c", _AGAIN, *_prioritise(scores)],
                lambda: bool(stage.database.value("benchmarks.sql/prioritised")),
            ) as leader,
            Clients(stage.database, BATCHED) as clients,
        ):
            pairs = [frozen_in_turn(clients.rate, [leader], seconds) for _ in range(rounds)]
    yield Finding(
        f"one task at a time, {BATCHED.total} clients, batched, while the priorities of "
        f"{bench.scale.prioritised:,} tasks are changed",
        statistics.median(changing for changing, _ in pairs),
        "tasks/s",
        "nobody changes any",
        statistics.median(alone for _, alone in pairs),
        ratio([changing / alone for changing, alone in pairs]),
        Goal(0.9),
    )
    yield Finding(
        "the same after some were changed",
        statistics.median(alone for _, alone in pairs),
        "tasks/s",
        "before",
        before,
        ratio([alone / before for _, alone in pairs]),
    )


def _scores(stage: Stage, file: Path, count: int) -> Path:
    """Seed so many tasks, and write a score for each, in no order."""
    known = stage.client.campaign(CAMPAIGN).status().total
    stage.seed(count)
    draw = random.Random(1)  # noqa: S311  # scores are no secrets
    with file.open("w") as lines:
        lines.write("key,score\n")
        for task in islice(stage.client.campaign(CAMPAIGN).tasks(), known, None):
            lines.write(f"{task.key},{draw.gauss(-7, 1):.3f}\n")
    return file


def _prioritise(scores: Path) -> list[str]:
    words = ["prioritise", CAMPAIGN, str(scores), "--by", "score"]
    return [sys.executable, "-c", _PROGRAM, *words]
