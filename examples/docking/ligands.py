"""Ligands: from a SMILES string to the PDBQT text that Vina docks."""

from __future__ import annotations

from typing import Final

# meeko ships no type information
from meeko import MoleculePreparation, PDBQTWriterLegacy  # type: ignore[import-untyped]
from rdkit import Chem
from rdkit.Chem import rdDistGeom, rdForceFieldHelpers

from taskq_agent import FailForGood

# Beyond this size a search takes hours and its score means little.
MAX_HEAVY_ATOMS: Final = 100
_LACKS_PARAMETERS: Final = -1


def pdbqt(smiles: str, seed: int) -> str:
    """Return one 3-D conformer, the same for the same seed, with hydrogens and atom types.

    Raises FailForGood for what no later attempt can dock: unreadable SMILES, several
    molecules, no conformer, an element without an AutoDock type.
    """
    molecule = Chem.AddHs(_one_molecule(smiles))
    if (
        rdDistGeom.EmbedMolecule(molecule, randomSeed=seed) < 0
        and rdDistGeom.EmbedMolecule(molecule, randomSeed=seed, useRandomCoords=True) < 0
    ):
        raise FailForGood(f"ligand {smiles!r}: no 3-D conformer could be made")
    # As many steps as dockstring takes for the scores that we compare with.
    if rdForceFieldHelpers.MMFFOptimizeMolecule(molecule, maxIters=1_000) == _LACKS_PARAMETERS:
        rdForceFieldHelpers.UFFOptimizeMolecule(molecule, maxIters=1_000)
    try:
        (setup,) = MoleculePreparation().prepare(molecule)
        text, complete, problem = PDBQTWriterLegacy.write_string(setup)
    except (TypeError, ValueError, RuntimeError) as error:
        raise FailForGood(f"ligand {smiles!r} cannot be prepared: {error}") from error
    # Vina ends the process when it is given an empty ligand.
    if not complete or not text:
        raise FailForGood(f"ligand {smiles!r} cannot be written as PDBQT: {problem.strip()}")
    return str(text)


def _one_molecule(smiles: str) -> Chem.Mol:
    molecule = Chem.MolFromSmiles(smiles)
    if molecule is None:
        raise FailForGood(f"ligand {smiles!r} is not valid SMILES")
    heavy = molecule.GetNumHeavyAtoms()
    if not 1 <= heavy <= MAX_HEAVY_ATOMS:
        raise FailForGood(f"ligand of {heavy} heavy atoms; 1 to {MAX_HEAVY_ATOMS} can be docked")
    parts = len(Chem.GetMolFrags(molecule))
    if parts != 1:
        raise FailForGood(f"ligand {smiles!r} is {parts} molecules: give it without its salt")
    return molecule
