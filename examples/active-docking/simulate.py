"""Tell how many of the best the model finds, for several random beginnings, without a queue.

    python examples/active-docking/simulate.py --runs 12

Takes the scores of `scores.csv` in the order in which `learn.py` would have the ligands docked by
one agent that waits while the model learns.
"""

from __future__ import annotations

import argparse
import random
from statistics import fmean

from learn import FIRST, STEP, Learner, found
from nci import library, scores

#: Share of the library that is docked.
DOCKED = 0.2


def order(seed: int, share: float = DOCKED) -> list[str]:
    """Return the keys of what is docked, in order."""
    smiles = {ligand.key: ligand.smiles for ligand in library()}
    known = scores()
    learner = Learner(smiles)
    enough = round(share * len(smiles))
    docked = random.Random(seed).sample(list(smiles), round(FIRST * len(smiles)))
    while len(docked) < enough:
        expected = learner.predictions({key: known[key] for key in docked})
        step = min(round(STEP * len(smiles)), enough - len(docked))
        docked += sorted(expected, key=expected.__getitem__)[:step]
    return docked


def main() -> None:
    """Print a line for each run, and the mean."""
    parser = argparse.ArgumentParser(description="Tell how many of the best the model finds.")
    parser.add_argument("--runs", type=int, default=12)
    shares = []
    for seed in range(parser.parse_args().runs):
        shares.append(found(order(seed), scores())[-1])
        print(f"run {seed}: {shares[-1]:.0%} of the best 1 %", flush=True)
    print(f"mean {fmean(shares):.1%}, {min(shares):.0%} to {max(shares):.0%}")


if __name__ == "__main__":
    main()
