"""Dock many ligands by one start of AutoDock Vina 1.2, and say the outcome of each.

usage: vina_batch.py TASKS RECEPTOR BOX

TASKS: the file of tasks; a payload has `smiles`, or `pdbqt`. RECEPTOR: PDBQT. BOX: centre and size
of the search, as a file for Vina's --config. Needs `vina` on PATH; meeko and rdkit for SMILES.

Vina takes its ligands in order and leaves a file for each. One that it cannot read is skipped by
new releases; 1.2.3 ends there with 1, without those behind it: then Vina starts again behind it. If
it is killed, so is this program: taskq finds out whose fault that is.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, os.path.dirname(__file__))  # noqa: PTH120  # inputs have their names there only

from many_ligands import SEED, Batch, need, pdbqt, run, take_vina_pose


def dock(batch: Batch, receptor: str, box: str) -> None:
    """Start Vina once, for all ligands that are left."""
    out = Path("out")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    numbers = [*batch.left]
    poses = [out / f"{number}_out.pdbqt" for number in numbers]
    argv = ["vina", "--receptor", receptor, "--config", box, "--batch"]
    argv += [f"{number}.pdbqt" for number in numbers]
    argv += ["--dir", str(out), "--exhaustiveness", "1", "--seed", str(SEED)]
    argv += ["--cpu", os.environ.get("OMP_NUM_THREADS", "1")]
    done = 0

    def look(_: Sequence[str] = (), *, ended: bool = False) -> None:
        # What comes before the newest file is complete, and that file too when Vina has ended.
        nonlocal done
        there = [at for at in range(done, len(numbers)) if poses[at].exists()]
        complete = max(there, default=done - 1) + ended
        for at in range(done, complete):
            if not take_vina_pose(batch, numbers[at], poses[at]):
                batch.undocked(numbers[at], "Vina has left no pose of this ligand")
        if done < complete < len(numbers):
            batch.begun(numbers[complete])
        done = max(done, complete)

    batch.begun(numbers[0])
    code = run(argv, look)
    look(ended=True)
    if code and done < len(numbers):
        batch.undocked(numbers[done], f"Vina has ended with {code} at this ligand")
    for number in [] if code else [*batch.left]:
        batch.undocked(number, "Vina has left no pose of this ligand")


def main() -> None:
    """Dock all tasks, by as many starts as bad ligands require."""
    file, receptor, box = sys.argv[1:]
    need("vina")
    batch = Batch(file)
    batch.prepare(lambda number, payload: Path(f"{number}.pdbqt").write_text(pdbqt(payload)))
    while batch.left:
        dock(batch, receptor, box)
    batch.close()


if __name__ == "__main__":
    main()
