"""Tell how many of the best the model finds, beginning with several ligands, without a queue.

    python examples/active-docking/simulate.py --runs 40

Takes the scores of `scores.csv` in the order in which `learn.py` would have the ligands docked by
one agent that waits while the model learns.
"""

from __future__ import annotations

import argparse
import random
from statistics import fmean, quantiles

from learn import FIRST, STEP, Learner, found
from nci import library, scores

#: Share of the library that is docked.
DOCKED = 0.2


def order(learner: Learner, seed: int, share: float = DOCKED) -> list[str]:
    """Return the keys of what is docked, in order."""
    known, size = scores(), len(learner.keys)
    enough = round(share * size)
    first = random.Random(seed).randrange(size)  # no secret
    docked = list(learner.diverse(round(FIRST * size), first))
    while len(docked) < enough:
        expected = learner.predictions({key: known[key] for key in docked})
        step = min(round(STEP * size), enough - len(docked))
        docked += sorted(expected, key=expected.__getitem__)[:step]
    return docked


def main() -> None:
    """Print a line for each run, and how they are distributed."""
    parser = argparse.ArgumentParser(description="Tell how many of the best the model finds.")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    options = parser.parse_args()
    learner = Learner({ligand.key: ligand.smiles for ligand in library()})
    shares = []
    for seed in range(options.seed, options.seed + options.runs):
        shares.append(found(order(learner, seed), scores())[-1])
        print(f"run {seed}: {shares[-1]:.0%} of the best 1 %", flush=True)
    quarters = ", ".join(f"{share:.0%}" for share in quantiles(shares, method="inclusive"))
    print(f"mean {fmean(shares):.1%}, {min(shares):.0%} to {max(shares):.0%}; quartiles {quarters}")


if __name__ == "__main__":
    main()
