"""The process that converts poses: PDBQT in, a mol block or an error out, each a line of JSON.

Poses come from strangers, and RDKit is C++. So this is a separate process, which sets limits for
itself; see `poses`. A PDBQT file does not describe bonds: Meeko takes them from the
remarks that it wrote when it prepared the ligand, and that Vina keeps.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from typing import Final

# meeko ships no type information
from meeko import PDBQTMolecule, RDKitMolCreate  # type: ignore[import-untyped]
from rdkit import Chem, rdBase

#: Limit of address space; the libraries reserve more of it than they use.
_MOST_BYTES: Final = 4 << 30


def mol_block(text: str) -> str:
    """Return the molecule of a PDBQT text, with all hydrogens; raise ValueError if it has none."""
    found = RDKitMolCreate.from_pdbqt_mol(PDBQTMolecule(text, skip_typing=True))
    if found == [None]:
        raise ValueError("it has no REMARK SMILES, by which Meeko knows the bonds")
    (molecule,) = found
    return Chem.MolToMolBlock(molecule)


def main() -> None:
    """Convert each line of standard input until it ends; the first line out reports the start.

    An answer is a list: a mol block, or None and the error.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Meeko prints
    for kind, most in (
        (resource.RLIMIT_AS, _MOST_BYTES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        resource.setrlimit(kind, (most, most))
    rdBase.DisableLog("rdApp.*")
    print("[]", file=answers, flush=True)
    for line in sys.stdin:
        answer: list[str | None]
        try:
            answer = [mol_block(json.loads(line))]
        except Exception as error:  # noqa: BLE001  # Meeko raises errors of any class
            answer = [None, f"{type(error).__name__}: {error!s:.300}"]
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
