"""An ended campaign is archived, removed and restored, alone and while others claim."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.cases.claims import MAX_ONE_S
from benchmarks.findings import Finding, Goal
from benchmarks.load.clients import BATCHED, Clients, Load
from benchmarks.stage import Bench, Stage
from benchmarks.turns import frozen_in_turn, ratio
from taskq.model.errors import Unavailable
from taskq.planning.trial import CAMPAIGN

#: In which others claim meanwhile.
OTHERS: Final = "/others"
#: A command must stay below it, however many tasks the campaign has.
MOST_MEMORY_MB: Final = 200
_FINISHING: Final = Load(2, 4, 100, CAMPAIGN)
_CLAIMING: Final = replace(BATCHED, path=OTHERS)
#: Says at the end how many bytes it had at most: `ru_maxrss` also counts what started it.
_PROGRAM: Final = """
import os
from taskq_agent.procfs import peak_bytes
from taskq_cli.main import main
try:
    main()
finally:
    print(peak_bytes(os.getpid()))
"""
#: The words of a command, some of which have a number for which each run has another.
_AGAIN: Final = """
import subprocess, sys
for number in range(1000):
    words = [word.replace("NUMBER", str(number)) for word in sys.argv[1:]]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
"""


@dataclass(frozen=True, slots=True)
class _Run:
    """What a command took, and the most memory that it had."""

    seconds: float
    memory_mb: float


def life(bench: Bench) -> Iterator[Finding]:
    """Archive an ended campaign and restore it: time, memory, size, and claims of others."""
    tasks, folder = bench.scale.archived, bench.folder / "archive"
    with bench.stage() as stage:
        stage.seed(tasks)
        stage.finish(_FINISHING, tasks)
        stage.settle()
        yield from _taken(f"archive {tasks:,} tasks", _run(stage, _archive(folder)), tasks)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        yield Finding("size of the archive", size / tasks, "bytes/task")
        stage.add(OTHERS)
        yield _meanwhile(bench, stage, "archived", _archive(bench.folder / "NUMBER"))
        _run(stage, ("rm", CAMPAIGN, "--yes"))
        stage.settle()
        restore = ("restore", str(folder))
        yield from _taken(f"restore {tasks:,} tasks", _run(stage, restore), tasks)
        yield _meanwhile(bench, stage, "restored", (*restore, "--as", "/copy/NUMBER"))


def _archive(to: Path) -> tuple[str, ...]:
    return ("archive", CAMPAIGN, "--to", str(to))


def _taken(what: str, run: _Run, tasks: int) -> Iterator[Finding]:
    yield Finding(what, tasks / run.seconds, "tasks/s", note=f"{run.seconds:.1f} s")
    yield Finding(f"memory of it: {what}", run.memory_mb, "MB", goal=Goal(MOST_MEMORY_MB, "most"))


def _meanwhile(bench: Bench, stage: Stage, verb: str, words: tuple[str, ...]) -> Finding:
    """Return how fast others claim while a command runs, next to while it is frozen."""
    seconds, rounds = bench.scale.seconds, bench.scale.rounds
    stage.top_up(round(MAX_ONE_S * seconds * (2 * rounds + 1)), OTHERS)
    stage.settle()
    with _again(stage, words) as leader, Clients(stage.database, _CLAIMING) as clients:
        pairs = [frozen_in_turn(clients.rate, [leader], seconds) for _ in range(rounds)]
    return Finding(
        f"one task at a time, {BATCHED.total} clients, batched, while a campaign of "
        f"{bench.scale.archived:,} tasks is {verb}",
        statistics.median(together for together, _ in pairs),
        "tasks/s",
        "the command is frozen",
        statistics.median(alone for _, alone in pairs),
        ratio([together / alone for together, alone in pairs]),
        Goal(0.9),
    )


def _words(words: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-c", _PROGRAM, "campaign", *words]


def _run(stage: Stage, words: tuple[str, ...]) -> _Run:
    """Run a command of taskq to its end; raise `Unavailable` if it fails."""
    began = time.monotonic()
    process = subprocess.run(
        _words(words), env=_environment(stage), stdout=subprocess.PIPE, check=False
    )
    if process.returncode:
        raise Unavailable(f"`taskq campaign {words[0]}` has failed: {process.returncode}")
    return _Run(time.monotonic() - began, int(process.stdout.split()[-1]) / 1e6)


@contextmanager
def _again(stage: Stage, words: tuple[str, ...]) -> Iterator[int]:
    """Run a command again and again; yield the leader of its process group."""
    with subprocess.Popen(
        [sys.executable, "-c", _AGAIN, *_words(words)],
        env=_environment(stage),
        start_new_session=True,
    ) as process:
        try:
            yield process.pid
            if process.poll() is not None:
                raise Unavailable(f"`taskq campaign {words[0]}` has failed")
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _environment(stage: Stage) -> dict[str, str]:
    return os.environ | {"TASKQ_DSN": stage.database.dsn}
