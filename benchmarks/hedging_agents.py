"""Hedging with real agents, one of ten on a slow host: `python -m benchmarks.hedging_agents`.

The hosts are names; on the slow one all takes ten times as long. Tasks sleep, and count how long
they do, so that the time of attempts that were stopped counts as well. Rounds with and without
hedging take turns. benchmarks/hedging.py simulates the same, with more of everything.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.own_server import own_server
from taskq import CampaignSpec, Client, Handler, Seed
from taskq.db import migrations
from taskq.db.connections import Database
from taskq.upkeep.keeper import keeping

ROOT: Final = Path(__file__).parents[1]
HOSTS: Final = 10
SLOTS: Final = 2
SLOWDOWN: Final = 10.0
STEP_S: Final = 0.05


class _Round(NamedTuple):
    """How a round went: how long its tail was, how much was slept, what was hedged.

    tail_s: from when nothing waited to the last result.
    """

    tail_s: float
    work_s: float
    hedged: int


def sleep(payload: Mapping[str, Any], _: object) -> None:
    """Sleep for as long as the payload says, on a slow host longer; note each step."""
    ends = time.monotonic() + payload["takes_s"] * float(os.environ["SLOWDOWN"])
    with Path(os.environ["NOTES"], str(os.getpid())).open("ab", buffering=0) as notes:
        while time.monotonic() < ends:
            time.sleep(STEP_S)
            notes.write(b".")


def main() -> None:
    """Run the rounds, and print what came of each and the medians."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hedging_agents", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=120)
    options = parser.parse_args()
    rounds: dict[str, list[_Round]] = {"without": [], "hedged": []}
    with own_server() as server, closing(Database(server.up().dsn).open()) as database:
        migrations.migrate(database)
        with keeping(database):
            for number in range(options.rounds):
                for name, found in rounds.items():
                    found.append(_round(Client(database), name, number, options.tasks))
                    _say(f"{name} {number + 1}", found[-1])
    for name, found in rounds.items():
        median = _Round(*(statistics.median(column) for column in zip(*found, strict=True)))
        _say(f"{name}, median", median)


def _say(name: str, measured: _Round) -> None:
    sys.stdout.write(
        f"{name:16} a tail of {measured.tail_s:5.1f} s, {measured.work_s:6.1f} s of work, "
        f"{measured.hedged:.0f} hedged\n"
    )
    sys.stdout.flush()


def _round(queue: Client, name: str, number: int, tasks: int) -> _Round:
    draw = random.Random(number)  # noqa: S311  # a simulation
    spec = CampaignSpec(
        f"/{name}-{number}",
        handler=Handler("python", target="benchmarks.hedging_agents:sleep"),
        late_results="salvage",
        hedge=0.05 if name == "hedged" else None,
    )
    campaign = queue.create_campaign(spec)
    campaign.seed(Seed({"takes_s": draw.lognormvariate(1, 0.5)}, f"{n}") for n in range(tasks))
    with tempfile.TemporaryDirectory(prefix="taskq-hedging-") as folder:
        agents = [_agent(queue, spec.path, Path(folder), host) for host in range(HOSTS)]
        try:
            while campaign.status().waiting:
                time.sleep(STEP_S)
            begun = time.monotonic()
            while campaign.status().unfinished:
                time.sleep(STEP_S)
            tail_s = time.monotonic() - begun
        finally:
            for agent in agents:
                agent.terminate()
            for agent in agents:
                agent.wait()
        steps = sum(file.stat().st_size for file in Path(folder, "notes").iterdir())
    hedged = sum(
        any(
            "hedged" in {attempt.outcome, attempt.error_class}
            for attempt in campaign.attempts(view.key)
        )
        for view in campaign.tasks()
    )
    return _Round(tail_s, steps * STEP_S, hedged)


def _agent(queue: Client, path: str, folder: Path, host: int) -> subprocess.Popen[bytes]:
    """Start an agent; the first is on the slow host."""
    notes = folder / "notes"
    notes.mkdir(exist_ok=True)
    words = ["agent", "run", "--campaign", path, "--host", f"n{host}", "--slots", f"{SLOTS}"]
    words += ["--spool", str(folder / f"spool-{host}"), "--lease", "8", "--quiet", "--grace", "0"]
    environment = {
        "PYTHONPATH": str(ROOT),
        "TASKQ_DSN": queue.database.dsn,
        "SLOWDOWN": f"{1.0 if host else SLOWDOWN}",
        "NOTES": str(notes),
    }
    program = [str(Path(sys.executable).with_name("taskq")), *words]
    return subprocess.Popen(program, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
