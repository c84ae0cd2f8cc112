"""The receptor-ligand pairs of the campaign, with the scores published for them.

They are read from the installed `dockstring` package (Garcia-Ortegon et al., J. Chem. Inf.
Model. 2022, 62, 3486), so that no third-party data lies in this folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# dockstring ships no type information
from dockstring.dataset import random_dataset_tuples  # type: ignore[import-untyped]
from rdkit import Chem
from rdkit.Chem.rdMolDescriptors import CalcNumRotatableBonds

# Larger ligands need a longer search than a demonstration allows.
MAX_HEAVY_ATOMS: Final = 28
MAX_ROTATABLE_BONDS: Final = 6


@dataclass(frozen=True)
class Pair:
    """A ligand and the receptor it is docked to; the published score is in kcal/mol."""

    number: int  # its place in dockstring's list, from 1
    target: str
    smiles: str
    published: float


def published_pairs() -> list[Pair]:
    """Return the pairs whose ligands are small enough, in dockstring's order."""
    return [
        Pair(number, target, smiles, score)
        for number, (target, smiles, score) in enumerate(random_dataset_tuples, start=1)
        if is_small(Chem.MolFromSmiles(smiles))
    ]


def is_small(molecule: Chem.Mol) -> bool:
    """Tell whether a short docking run can be expected to find the best pose."""
    return (
        molecule.GetNumHeavyAtoms() <= MAX_HEAVY_ATOMS
        and CalcNumRotatableBonds(molecule) <= MAX_ROTATABLE_BONDS
    )
