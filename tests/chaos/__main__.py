"""Run farms under a nemesis: `python -m tests.chaos --runs 100 --seconds 15 --seed 1`.

With `--pilots` their agents are jobs of a pilot, and tasks keep checkpoints.
Prints a line for each run, and totals. Exit code: 0 if nothing was wrong, else 1; then history and
logs of the bad runs are kept, and the line says where.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.own_server import own_server
from tests.chaos.checker import (
    DUPLICATED,
    FOREIGN,
    GAP,
    INTRUDER,
    LOST,
    OVERLAP,
    PHANTOM,
    STALE,
    VANISHED,
)
from tests.chaos.pilot_trial import run_pilot_trial
from tests.chaos.plan import KINDS, PILOT_KINDS
from tests.chaos.trial import Trial, run_trial

_ANOMALIES = (LOST, DUPLICATED, PHANTOM, OVERLAP, FOREIGN, VANISHED, GAP, INTRUDER, STALE)


def main() -> int:
    """Do as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--runs", type=int, default=1, metavar="N")
    parser.add_argument("--seconds", type=float, default=15.0, metavar="S", help="of each run")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the first run")
    parser.add_argument("--pilots", action="store_true", help="farms whose agents a pilot submits")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    options = parser.parse_args()
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)  # our kills are no news
    trials = []
    with own_server() as server:
        for seed in range(options.seed, options.seed + options.runs):
            run = run_pilot_trial if options.pilots else run_trial
            trials.append(run(server, seed, options.seconds))
            _say(_line(trials[-1]))
    _say(_totals(trials, PILOT_KINDS if options.pilots else KINDS))
    if options.json:
        options.json.write_text(json.dumps([_figures(trial) for trial in trials], indent=1) + "\n")
    return int(any(trial.wrong for trial in trials))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _line(trial: Trial) -> str:
    verdict = trial.verdict
    found = ", ".join(f"{verdict.count(kind)} {kind}" for kind in _ANOMALIES)
    text = (
        f"seed {trial.seed}: {trial.faults} faults ({trial.others.total()} more do not count), "
        f"{verdict.tasks:,} tasks, {verdict.executions:,} executions, "
        f"{verdict.again} of divided starts, {verdict.recovered} recovered, "
        f"{trial.hedged} hedged; {verdict.sweeps} sets moved, {verdict.withdrawn} withdrawn, "
        f"{verdict.bans} bans; {trial.jobs} jobs, {verdict.goings_on} from checkpoints; {found}; "
        f"at rest after {trial.settled_s:.1f} s, {trial.took_s:.0f} s in all"
    )
    if trial.wrong:
        text += f"\n  WRONG, see {trial.kept}: " + "\n    ".join(trial.wrong[:10])
    return text


def _totals(trials: list[Trial], kinds: Sequence[str]) -> str:
    faults: Counter[str] = sum((trial.counted for trial in trials), Counter())
    tasks = sum(trial.verdict.tasks for trial in trials)
    executions = sum(trial.verdict.executions for trial in trials)
    sweeps = sum(trial.verdict.sweeps for trial in trials)
    bans = sum(trial.verdict.bans for trial in trials)
    lines = [
        f"{len(trials)} runs, {faults.total():,} faults",
        f"  {tasks:6,} tasks, {executions:,} executions",
        f"  {sum(trial.verdict.again for trial in trials):6,} executions of divided starts",
        f"  {sweeps:6,} sets of tasks moved",
        f"  {sum(trial.verdict.withdrawn for trial in trials):6,} results withdrawn",
        f"  {bans:6,} bans",
        f"  {sum(trial.jobs for trial in trials):6,} jobs of a pilot",
        f"  {sum(trial.verdict.goings_on for trial in trials):6,} executions from a checkpoint",
    ]
    lines += [f"  {faults[kind]:6,} {kind}" for kind in kinds]
    lines += [
        f"  {sum(trial.verdict.count(kind) for trial in trials):6,} {kind}" for kind in _ANOMALIES
    ]
    lines.append(f"  {sum(bool(trial.wrong) for trial in trials):6,} runs with something wrong")
    return "\n".join(lines)


def _figures(trial: Trial) -> dict[str, object]:
    return {
        "seed": trial.seed,
        "faults": dict(trial.counted),
        "uncounted": dict(trial.others),
        "verdict": asdict(trial.verdict),
        "wrong": trial.wrong,
        "settled_s": trial.settled_s,
        "took_s": trial.took_s,
        "hedged": trial.hedged,
        "jobs": trial.jobs,
        "kept": None if trial.kept is None else str(trial.kept),
    }


if __name__ == "__main__":
    sys.exit(main())
