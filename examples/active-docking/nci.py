"""The library: molecules that come with RDKit, and the scores that Vina has given them.

`scores.csv` has the number of each in the file `first_5K.smi` of the National Cancer Institute, and
its score with the receptor ESR1 of dockstring, by `make_scores.py`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rdkit import Chem, RDConfig, RDLogger
from rdkit.Chem import rdMolDescriptors

SCORES: Final = Path(__file__).with_name("scores.csv")
_MOLECULES: Final = Path(RDConfig.RDDataDir, "NCI", "first_5K.smi")
_ELEMENTS: Final = frozenset(("C", "N", "O", "F", "P", "S", "Cl", "Br", "I"))
_HEAVY_ATOMS: Final = range(10, 23)
_MOST_ROTATABLE: Final = 5


@dataclass(frozen=True)
class Ligand:
    """A molecule of the library. key: its number there."""

    key: str
    smiles: str


def molecules() -> Iterator[Ligand]:
    """Yield the molecules that are small enough to be docked in a second, none twice."""
    RDLogger.DisableLog("rdApp.*")  # some of the file are no molecules to RDKit
    seen = set()
    for line in _MOLECULES.read_text().splitlines():
        smiles, number = line.split()[:2]
        molecule = Chem.MolFromSmiles(smiles)
        if molecule is None or len(Chem.GetMolFrags(molecule)) != 1:
            continue
        if (
            molecule.GetNumHeavyAtoms() in _HEAVY_ATOMS
            and rdMolDescriptors.CalcNumRotatableBonds(molecule) <= _MOST_ROTATABLE
            and all(atom.GetSymbol() in _ELEMENTS for atom in molecule.GetAtoms())
            and (canonical := Chem.MolToSmiles(molecule)) not in seen
        ):
            seen.add(canonical)
            yield Ligand(number, canonical)


def scores() -> dict[str, float]:
    """Return the scores in kcal/mol by key; the lower, the better."""
    with SCORES.open(newline="") as file:
        return {row["number"]: float(row["score"]) for row in csv.DictReader(file)}


def library() -> list[Ligand]:
    """Return the molecules that have a score."""
    scored = scores()
    return [ligand for ligand in molecules() if ligand.key in scored]
