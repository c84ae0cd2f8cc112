"""Molecules as tests need them, made by RDKit."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

from rdkit import Chem
from rdkit.Chem import rdDistGeom

#: A pose of paracetamol as Vina 1.2.7 writes it, of a ligand that Meeko has prepared.
PDBQT = (Path(__file__).parent / "pose.pdbqt").read_text()


def mol_block(smiles: str, title: str = "", *, v3000: bool = False) -> str:
    """Return a molecule with coordinates."""
    molecule = Chem.AddHs(Chem.MolFromSmiles(smiles))
    rdDistGeom.EmbedMolecule(molecule, randomSeed=1)
    molecule.SetProp("_Name", title)
    return Chem.MolToMolBlock(molecule, forceV3000=v3000)


def read(sdf: bytes) -> list[tuple[str, dict[str, str]]]:
    """Return SMILES, without hydrogens, and fields of each molecule; none may be unreadable."""
    return [(smiles, fields) for smiles, _, fields in _read(sdf)]


def titles(sdf: bytes) -> list[str]:
    """Return the names of the molecules."""
    return [title for _, title, _ in _read(sdf)]


def _read(sdf: bytes) -> Iterator[tuple[str, str, dict[str, str]]]:
    for molecule in Chem.ForwardSDMolSupplier(io.BytesIO(sdf)):
        assert molecule is not None
        title = molecule.GetProp("_Name")
        yield Chem.MolToSmiles(molecule), title, molecule.GetPropsAsDict(autoConvertStrings=False)
