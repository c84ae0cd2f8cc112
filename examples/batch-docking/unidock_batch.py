"""Dock many ligands by one start of Uni-Dock, and say the outcome of each.

usage: unidock_batch.py TASKS RECEPTOR BOX [OPTION ...]

TASKS: the file of tasks; a payload has `smiles`, or `pdbqt`. RECEPTOR: PDBQT. BOX: centre and size
of the search, as a file for Uni-Dock's --config. OPTION: further options, such as --search_mode
fast. Needs `unidock` on PATH; meeko and rdkit for SMILES.

Uni-Dock sorts the ligands by size, docks as many at a time as fit into the memory of the GPU, and
writes the poses of these together. It warns of a ligand that it cannot dock, leaves no file of it,
and ends with 0. Some ligands kill it: it does not say which, so taskq finds that out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, os.path.dirname(__file__))  # noqa: PTH120  # inputs have their names there only

from many_ligands import SEED, Batch, end, need, pdbqt, run, take_vina_pose

OUT = Path("out")
ENDING = "_out.pdbqt"


def main() -> None:
    """Dock all tasks."""
    file, receptor, box, *options = sys.argv[1:]
    need("unidock")
    batch = Batch(file)
    batch.prepare(lambda number, payload: Path(f"{number}.pdbqt").write_text(pdbqt(payload)))
    if not batch.left:
        return
    Path("ligands.txt").write_text("".join(f"{number}.pdbqt\n" for number in batch.left))
    OUT.mkdir()

    def look(_: Sequence[str]) -> None:
        for name in os.listdir(OUT):  # noqa: PTH208
            number = int(name.removesuffix(ENDING))
            if number in batch.left:
                take_vina_pose(batch, number, OUT / name)

    argv = ["unidock", "--receptor", receptor, "--config", box, "--ligand_index", "ligands.txt"]
    # With one pose a file is complete when that ends.
    argv += ["--dir", str(OUT), "--num_modes", "1", "--seed", str(SEED)]
    if share := os.environ.get("TASKQ_GPU_MEMORY_MB"):  # else it takes 95 % of what is free
        argv += ["--max_gpu_memory", share]
    argv += options
    if code := run(argv, look):
        end(code)
    for number in [*batch.left]:
        batch.undocked(number, "Uni-Dock has left no pose of this ligand")
    batch.close()


if __name__ == "__main__":
    main()
