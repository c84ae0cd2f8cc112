"""Dock many ligands by one start of AutoDock-GPU, and say the outcome of each.

usage: autodock_gpu_batch.py TASKS MAPS PROGRAM [OPTION ...]

TASKS: the file of tasks; a payload has `smiles`, or `pdbqt`. MAPS: the receptor's grid maps, such
as 1lf3.maps.fld, next to the files that it names. PROGRAM: such as autodock_gpu_64wi, on PATH.
OPTION: further options, such as --nrun 20. Needs meeko and rdkit for SMILES.

AutoDock-GPU docks a list of ligands one after the other, says which one it begins, and writes a
docking log of each. It flags a ligand that it cannot dock, goes on, and ends with 0.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, os.path.dirname(__file__))  # noqa: PTH120  # inputs have their names there only

from many_ligands import SEED, Batch, end, need, pdbqt, run

BEGUN = re.compile(r"^Running Job #(\d+)")
BAD = re.compile(r"^Error in (setup of|docking_with_gpu, stopped) Job #(\d+)")
ENERGY = re.compile(
    r"^DOCKED: USER    Estimated Free Energy of Binding    =\s*(\S+) kcal/mol", re.MULTILINE
)
COMPLETE = re.compile(r"^Idle time .* sec\n", re.MULTILINE)


def best_pose(text: str) -> tuple[float, str]:
    """Return the lowest energy in a docking log, and its model as PDBQT."""
    found = []
    for part in text.split("DOCKED: MODEL ")[1:]:
        model = f"DOCKED: MODEL {part.partition('DOCKED: ENDMDL')[0]}DOCKED: ENDMDL\n"
        if energy := ENERGY.search(model):
            found.append((float(energy[1]), model.replace("DOCKED: ", "")))
    return min(found)


class Logs:
    """Follows the docking logs. jobs: the numbers of the ligands, in the order of the list."""

    def __init__(self, batch: Batch, jobs: Sequence[int]) -> None:
        self._batch = batch
        self._jobs = jobs
        self._running: list[int] = []

    def look(self, lines: Sequence[str]) -> None:
        """Say which ligands have begun, and the outcome of each with a complete log."""
        for line in lines:
            if begun := BEGUN.match(line):
                self._running.append(self._jobs[int(begun[1]) - 1])
                self._batch.begun(self._running[-1])
            elif (bad := BAD.match(line)) and self._jobs[int(bad[2]) - 1] in self._batch.left:
                self._batch.undocked(self._jobs[int(bad[2]) - 1], line.strip(" :.\n"))
        for number in self._running:
            if number in self._batch.left:
                self._take(number)
        self._running = [number for number in self._running if number in self._batch.left]

    def _take(self, number: int) -> None:
        try:
            text = Path(f"{number}.dlg").read_text(errors="replace")
        except OSError:
            return
        if COMPLETE.search(text) is None:
            return
        try:
            energy, pose = best_pose(text)
        except ValueError:
            self._batch.undocked(number, "the docking log has no pose")
        else:
            self._batch.docked(number, pose, "pose.pdbqt", score=energy)


def main() -> None:
    """Dock all tasks."""
    file, maps, program, *options = sys.argv[1:]
    need(program)
    batch = Batch(file)
    batch.prepare(lambda number, payload: Path(f"{number}.pdbqt").write_text(pdbqt(payload)))
    if not batch.left:
        return
    # Each ligand with the name of its docking log.
    ligands = "".join(f"{number}.pdbqt\n{number}\n" for number in batch.left)
    Path("ligands.txt").write_text(f"{maps}\n{ligands}")
    logs = Logs(batch, [*batch.left])
    argv = [program, "--filelist", "ligands.txt", "--xmloutput", "0", "--seed", str(SEED), *options]
    if code := run(argv, logs.look):
        end(code)
    for number in [*batch.left]:
        batch.undocked(number, "AutoDock-GPU has left no complete docking log of this ligand")
    batch.close()


if __name__ == "__main__":
    main()
