"""Dock many ligands by one start of gnina, and say the outcome of each.

usage: gnina_batch.py TASKS RECEPTOR BOX [OPTION ...]

TASKS: the file of tasks; a payload has `smiles`, or `sdf`. RECEPTOR: PDB or PDBQT. BOX: centre and
size of the search, as a file for gnina's --config. OPTION: further options, such as --cnn fast.
Needs `gnina` on PATH; rdkit for SMILES.

gnina reads one SDF of all ligands and writes one of all poses, in order, under their titles, which
are numbers here. It skips a ligand that it cannot type. Behind one that it cannot read it reads no
more and ends with 0: then it starts again behind that one.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, os.path.dirname(__file__))  # noqa: PTH120  # inputs have their names there only

from many_ligands import SEED, Batch, conformer, end, need, run

RECORD_END = "$$$$\n"
VALUE = re.compile(r"^> +<(minimizedAffinity|CNNscore|CNNaffinity)>[^\n]*\n(\S+)", re.MULTILINE)
NAMES = {"minimizedAffinity": "score", "CNNscore": "cnn_score", "CNNaffinity": "cnn_affinity"}
SKIPPED = re.compile(r"^Parse error with molecule (\d+) ")


def sdf(number: int, payload: dict[str, Any]) -> str:
    """Return a ligand as a record of SDF with its number as title."""
    text = payload.get("sdf")
    if text is None:
        from rdkit import Chem  # noqa: PLC0415

        text = Chem.MolToMolBlock(conformer(payload["smiles"]))
    block = text.partition("\n")[2].partition("M  END")[0]
    if not block:
        raise ValueError("it has no block of atoms")
    return f"{number}\n{block}M  END\n{RECORD_END}"


class Poses:
    """Takes the records of gnina's output as they come."""

    def __init__(self, batch: Batch, file: Path) -> None:
        self._batch = batch
        self._file = file
        self._at = 0
        self.last = -1

    def look(self, lines: Sequence[str]) -> None:
        """Say the outcome of each ligand with a complete record, and of each that is skipped."""
        for line in lines:
            if (skipped := SKIPPED.match(line)) and int(skipped[1]) in self._batch.left:
                self._batch.undocked(int(skipped[1]), line.strip())
        if not self._file.exists():
            return
        with self._file.open("rb") as file:
            file.seek(self._at)
            *records, rest = file.read().split(RECORD_END.encode())
            self._at = file.tell() - len(rest)
        for record in records:
            text = record.decode("utf-8", "replace")
            number = int(text.partition("\n")[0])
            if number in self._batch.left:
                values = {NAMES[name]: float(value) for name, value in VALUE.findall(text)}
                self._batch.docked(number, text + RECORD_END, "pose.sdf", **values)
            self.last = number


def dock(batch: Batch, receptor: str, box: str, options: Sequence[str]) -> None:
    """Start gnina once, for all ligands that are left."""
    numbers, out = [*batch.left], Path("poses.sdf")
    with Path("ligands.sdf").open("w") as ligands:
        ligands.writelines(Path(f"{number}.sdf").read_text() for number in numbers)
    out.unlink(missing_ok=True)
    poses = Poses(batch, out)
    argv = ["gnina", "--receptor", receptor, "--config", box, "--ligand", "ligands.sdf"]
    argv += ["--out", str(out), "--num_modes", "1", "--seed", str(SEED), *options]
    if code := run(argv, poses.look):
        end(code)
    tried = numbers.index(poses.last) + 1 if poses.last in numbers else 0
    for number in numbers[:tried]:
        if number in batch.left:
            batch.undocked(number, "gnina has skipped this ligand")
    if batch.left:
        batch.undocked(next(iter(batch.left)), "gnina has read no further than this ligand")


def main() -> None:
    """Dock all tasks, by as many starts as bad ligands require."""
    file, receptor, box, *options = sys.argv[1:]
    need("gnina")
    batch = Batch(file)
    batch.prepare(lambda number, payload: Path(f"{number}.sdf").write_text(sdf(number, payload)))
    while batch.left:
        dock(batch, receptor, box, options)
    batch.close()


if __name__ == "__main__":
    main()
