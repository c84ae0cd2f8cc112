"""Search conformers of some drugs, and tell how far the first one was from the best.

    python examples/joblib-backend/conformers.py

MMFF94 energies by RDKit. Run again, it computes nothing.
"""

from __future__ import annotations

from typing import Final

import joblib
from rdkit import Chem
from rdkit.Chem import rdDistGeom, rdForceFieldHelpers

import taskq

DRUGS: Final = {
    "aspirin": "CC(=O)Oc1ccccc1C(=O)O",
    "caffeine": "Cn1cnc2c1c(=O)n(C)c(=O)n2C",
    "dopamine": "NCCc1ccc(O)c(O)c1",
    "ibuprofen": "CC(C)Cc1ccc(cc1)C(C)C(=O)O",
    "ketamine": "CNC1(CCCCC1=O)c1ccccc1Cl",
    "lidocaine": "CCN(CC)CC(=O)Nc1c(C)cccc1C",
    "nicotine": "CN1CCCC1c1cccnc1",
    "paracetamol": "CC(=O)Nc1ccc(O)cc1",
}


def strain(smiles: str, conformers: int = 10) -> float:
    """Return the energy of the first conformer above that of the best, in kcal/mol."""
    molecule = Chem.AddHs(Chem.MolFromSmiles(smiles))
    rdDistGeom.EmbedMultipleConfs(molecule, conformers, randomSeed=7)
    energies = [energy for _, energy in rdForceFieldHelpers.MMFFOptimizeMoleculeConfs(molecule)]
    return round(energies[0] - min(energies), 2)


def main() -> None:
    """Compute with agents of this machine; others, anywhere, may serve /calls as well."""
    with taskq.connect() as queue:
        queue.create_campaign("/calls")
        with (
            taskq.local_agents(queue, 2, "/calls"),
            taskq.joblib(queue),
        ):
            calls = (joblib.delayed(strain)(smiles) for smiles in DRUGS.values())
            strains = joblib.Parallel()(calls)
    for name, value in sorted(zip(DRUGS, strains, strict=True), key=lambda pair: pair[1]):
        print(f"{name:12} {value:6.2f} kcal/mol")


if __name__ == "__main__":
    main()
