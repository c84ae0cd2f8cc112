"""Dock the library and write `scores.csv`: minutes on many cores. Begun again, it goes on.

    python examples/active-docking/make_scores.py --most 3000

Searches are short (30,000 evaluations, one run, one conformer), as a first screen's would be.
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
from pathlib import Path
from typing import Final

from nci import SCORES, molecules

HERE: Final = Path(__file__).resolve().parent
TARGET: Final = "ESR1"
SEED: Final = 1
EVALUATIONS: Final = 30_000


def main() -> None:
    """Add the scores that are missing."""
    sys.path.insert(0, str(HERE.parent / "docking"))
    import engines  # noqa: PLC0415  # of the example next to this one
    import ligands  # noqa: PLC0415

    from taskq_agent import FailForGood  # noqa: PLC0415

    parser = argparse.ArgumentParser(description="Dock the library.")
    parser.add_argument("--most", type=int, default=10_000, help="ligands in all")
    most = parser.parse_args().most
    chosen = list(molecules())
    random.Random(SEED).shuffle(chosen)  # no secret
    known = set()
    if SCORES.exists():
        with SCORES.open(newline="") as file:
            known = {row["number"] for row in csv.DictReader(file)}
    vina = engines.new_vina(TARGET, SEED)
    engines.compute_maps(vina, TARGET)
    with SCORES.open("a", newline="") as file:
        writer = csv.writer(file)
        if not known:
            writer.writerow(["number", "score"])
        for ligand in chosen[:most]:
            if ligand.key in known:
                continue
            try:
                vina.set_ligand_from_string(ligands.pdbqt(ligand.smiles, SEED))
                vina.dock(exhaustiveness=1, n_poses=1, max_evals=EVALUATIONS)
                writer.writerow([ligand.key, f"{vina.energies(n_poses=1)[0][0]:.2f}"])
            except (FailForGood, IndexError, RuntimeError, TypeError, ValueError):
                continue  # no conformer, or no place in the box
            file.flush()


if __name__ == "__main__":
    main()
