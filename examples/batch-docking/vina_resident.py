"""Dock many ligands in flight, in a process that computes the receptor's maps once.

usage: vina_resident.py RECEPTOR

RECEPTOR: PDBQT. Parameters of the campaign: `center` and `size` of the search. A payload has
`smiles`, or `pdbqt`. A resident process of taskq, with `batch`. Needs the Python package vina;
meeko and rdkit for SMILES.

It reads the lines of all tasks as they come, docks as many at a time as it has cores, and answers
each when it is done. A child that dies ends it: the ligands that had begun are the suspects.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, os.path.dirname(__file__))  # noqa: PTH120  # inputs have their names there only

from many_ligands import SEED, pdbqt, unusable

#: The maps of the receptor, which all children have from their parent.
DOCKER: Any = None
ANSWERS = os.dup(1)


def say(number: int, **answer: object) -> None:
    """Answer by one write, which no other child's can divide."""
    os.write(ANSWERS, (json.dumps({"id": number, **answer}) + "\n").encode())


def dock(line: str) -> None:
    """Dock one ligand."""
    task = json.loads(line)
    number = task["id"]
    say(number, begun=True)
    try:
        ligand = pdbqt(task["payload"])
    except Exception as error:  # noqa: BLE001  # meeko and rdkit raise many kinds
        why = f"the ligand cannot be prepared: {error}"[:1_000]
        say(number, error=why, error_class="bad-ligand", verdict="fail")
        return
    try:
        DOCKER.set_ligand_from_string(ligand)
        DOCKER.dock(exhaustiveness=1, n_poses=1)
        score = float(DOCKER.energies(n_poses=1)[0][0])
        if (out := task["task"].get("out")) is not None:
            Path(out, "pose.pdbqt").write_text(DOCKER.poses(n_poses=1))
    except Exception as error:  # noqa: BLE001  # those of Vina, of which some are for one ligand only
        say(number, error=str(error)[:1_000], error_class="not-docked", verdict="retry")
    else:
        say(number, result={"score": score})


def end_if_dead(future: Future[None]) -> None:
    """End if the child has died, which no answer will come from."""
    if (error := future.exception()) is not None:
        print(f"a child has ended: {error}", file=sys.stderr, flush=True)
        os._exit(1)


def main() -> None:
    """Serve tasks until the end of the standard input."""
    global DOCKER  # noqa: PLW0603
    try:
        from vina import Vina  # type: ignore[import-untyped] # noqa: PLC0415
    except ImportError as error:
        unusable(str(error))
    os.dup2(2, 1)  # what Vina prints is no answer
    params = json.loads(sys.stdin.readline())["prepare"]
    DOCKER = Vina(cpu=1, seed=SEED, verbosity=0)
    DOCKER.set_receptor(sys.argv[1])
    DOCKER.compute_vina_maps(center=params["center"], box_size=params["size"])
    cores = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))
    with ProcessPoolExecutor(cores, multiprocessing.get_context("fork")) as pool:
        for line in sys.stdin:
            pool.submit(dock, line).add_done_callback(end_if_dead)


if __name__ == "__main__":
    main()
