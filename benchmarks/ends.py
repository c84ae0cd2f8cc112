"""How well the ends of campaigns are forecast that share real agents: `python -m benchmarks.ends`.

Each farm has some campaigns of different sizes, run times and weights, and agents of which some
serve only some campaigns; all is drawn from its number. Tasks sleep. While they run, the tree of
campaigns is read every second, as `taskq status` reads it. Afterwards each campaign's forecasts at
25, 50 and 75 % of its time are compared with what was left, next to those by its rate alone.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.own_server import own_server
from taskq import CampaignSpec, Client, Handler, Seed
from taskq.db import migrations
from taskq.db.connections import Database
from taskq.diagnosis.campaign_tree import grow, tree_now
from taskq.diagnosis.tree_readings import TreeReadings
from taskq.upkeep.keeper import keeping

ROOT: Final = Path(__file__).parents[1]
SHARES: Final = (0.25, 0.5, 0.75)
LOOK_S: Final = 1.0
#: Farms end after about so many seconds.
LASTING_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Look:
    """Seconds until the end of a campaign, at an instant: as forecast, and by its rate alone."""

    at: float
    eta_s: float | None
    by_rate_s: float | None


@dataclass(slots=True)
class Ratios:
    """Forecasts, as shares of what was left; None counts as missing."""

    found: list[float] = field(default_factory=list)
    missing: int = 0

    def take(self, eta_s: float | None, left_s: float) -> None:
        """Take a forecast in."""
        if eta_s is None:
            self.missing += 1
        else:
            self.found.append(eta_s / left_s)

    def __str__(self) -> str:
        """In words: median error, and how many are within a factor of two; missing ones are not."""
        every = len(self.found) + self.missing
        error = (
            statistics.median(abs(ratio - 1) for ratio in self.found) if self.found else math.nan
        )
        near = sum(0.5 <= ratio <= 2 for ratio in self.found) / every if every else math.nan  # noqa: PLR2004
        return f"{error:6.0%} {near:14.0%} {self.missing:8}"


def sleep(payload: Mapping[str, Any], _: object) -> None:
    """Sleep for as long as the payload says."""
    time.sleep(payload["takes_s"])


def main() -> None:
    """Run the farms, and print how far the forecasts were off."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ends", description=__doc__)
    parser.add_argument("--farms", type=int, default=10)
    parser.add_argument("--together", type=int, default=1, help="farms at a time")
    parser.add_argument("--each", action="store_true", help="print each forecast")
    options = parser.parse_args()
    simulated = {share: Ratios() for share in SHARES}
    by_rate = {share: Ratios() for share in SHARES}
    with own_server() as server, closing(Database(server.up().dsn).open()) as database:
        migrations.migrate(database)
        with keeping(database):
            run = partial(run_farm, Client(database))
            with ThreadPoolExecutor(options.together) as threads:
                for number, looks in enumerate(threads.map(run, range(options.farms))):
                    compare(looks, simulated, by_rate, say if options.each else None)
                    lasted_s = max(found[-1].at for found in looks.values())
                    lasted_s -= min(found[0].at for found in looks.values())
                    say(f"farm {number}: {len(looks)} campaigns, {lasted_s:.0f} s")
    say(f"{'of the time':>12} {'forecast':>10} {'median error':>14} {'within 2':>9} {'missing':>8}")
    for share in SHARES:
        say(f"{share:12.0%} {'simulated':>10} {simulated[share]}")
        say(f"{'':12} {'by rate':>10} {by_rate[share]}")


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def run_farm(queue: Client, number: int) -> dict[str, list[Look]]:
    """Run a farm; return the looks at each campaign, the last one when it had ended."""
    draw = random.Random(number)  # noqa: S311  # a simulation
    top, slots = f"/farm-{number}", draw.choice([4, 8, 12])
    paths = [f"{top}/c{place}" for place in range(draw.randint(2, 6))]
    whole = queue.create_campaign(CampaignSpec(top))
    whole.pause()
    for path in paths:
        spread = draw.choice([0.05, 0.3, 0.6])
        mean_s = math.exp(draw.uniform(-0.5, 1.5))
        wide = math.sqrt(math.log1p(spread**2))
        campaign = queue.create_campaign(
            CampaignSpec(
                path,
                handler=Handler("python", target="benchmarks.ends:sleep"),
                weight=draw.choice([1, 1, 2, 4]),
            )
        )
        tasks = max(8, round(LASTING_S * slots / len(paths) / mean_s * draw.uniform(0.3, 1.2)))
        middle = math.log(mean_s) - wide**2 / 2
        campaign.seed(
            Seed({"takes_s": draw.lognormvariate(middle, wide)}, f"{task}") for task in range(tasks)
        )
    scopes = [top] * (slots // 2) + [draw.choice([top, paths[0]])] * (slots - slots // 2)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="taskq-ends-")))
        agents = [agent(queue, scope, folder / str(place)) for place, scope in enumerate(scopes)]
        try:
            while queue.agent_counts(top).agents < slots:
                time.sleep(LOOK_S)
            whole.resume()
            return follow(queue, top, paths)
        finally:
            for process in agents:
                process.terminate()
            for process in agents:
                process.wait()


def agent(queue: Client, path: str, spool: Path) -> subprocess.Popen[bytes]:
    """Start an agent with one slot."""
    words = ["agent", "run", "--campaign", path, "--slots", "1", "--host", f"n{spool.name}"]
    words += ["--spool", str(spool), "--quiet", "--grace", "0"]
    environment = {"PYTHONPATH": str(ROOT), "TASKQ_DSN": queue.database.dsn}
    program = [str(Path(sys.executable).with_name("taskq")), *words]
    return subprocess.Popen(program, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)


def follow(queue: Client, top: str, paths: list[str]) -> dict[str, list[Look]]:
    """Look until all campaigns have ended; the first look is when tasks are at work."""
    looks: dict[str, list[Look]] = {path: [] for path in paths}
    running = set(paths)
    while running:
        read = TreeReadings(top, whole=False)
        nodes = tree_now(read, queue.queries).nodes
        now = time.monotonic()
        plain = grow(replace(read, sharing=(), kinds=(), anew=read.anew + 1), now).nodes
        for path in sorted(running):
            status = nodes[path].status
            if not status.unfinished:
                running.discard(path)
                looks[path].append(Look(now, 0.0, 0.0))
            elif any(node.status.working for node in nodes.values()):
                eta_s, by_rate_s = nodes[path].forecast.eta_s, plain[path].forecast.eta_s
                looks[path].append(Look(now, eta_s, by_rate_s))
        time.sleep(LOOK_S)
    return looks


def compare(
    looks: Mapping[str, list[Look]],
    simulated: Mapping[float, Ratios],
    by_rate: Mapping[float, Ratios],
    each: Callable[[str], None] | None,
) -> None:
    """Take in how far the forecasts of a farm were off."""
    for path, found in looks.items():
        begun, end = found[0].at, found[-1].at
        for share in SHARES:
            look = next(look for look in found if look.at >= begun + share * (end - begun))
            if look is not found[-1]:
                simulated[share].take(look.eta_s, end - look.at)
                by_rate[share].take(look.by_rate_s, end - look.at)
                if each is not None:
                    forecast = math.nan if look.eta_s is None else look.eta_s
                    each(f"{path}: {share:.0%} {forecast:.1f} s, ended after {end - look.at:.1f} s")


if __name__ == "__main__":
    main()
