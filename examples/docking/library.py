"""Print a library of a thousand ligands as JSON Lines: analogues of the docking campaign's.

    python examples/docking/library.py > library.jsonl
    taskq seed /demo/library library.jsonl --key-field name

Each analogue is one of the small ligands of dockstring with a group in the place of an aromatic
hydrogen, the positional scan of medicinal chemistry. Nothing says that an
analogue can be made or binds: the library is for showing a long campaign.
"""

from __future__ import annotations

import argparse
import json
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

from pairs import is_small, published_pairs
from rdkit import Chem
from rdkit.Chem import rdChemReactions

DEFAULT_SIZE: Final = 1_000
_GROUPS: Final = (
    "F", "Cl", "Br", "C", "CC", "C(C)C", "C1CC1", "CO", "CN", "C(F)F", "C(F)(F)F", "C#N",
    "C(C)=O", "C(N)=O", "O", "OC", "OCC", "N", "NC", "N(C)C", "NC(C)=O", "S(C)(=O)=O",
)  # fmt: skip
_AROMATIC_HYDROGENS: Final = [
    rdChemReactions.ReactionFromSmarts(f"[cH:1]>>[c:1]{group}") for group in _GROUPS
]


def library() -> Iterator[str]:
    """Yield distinct canonical SMILES: the ligands, then with one group more, with two ..."""
    parents = deque(Chem.MolToSmiles(Chem.MolFromSmiles(pair.smiles)) for pair in published_pairs())
    yield from parents
    seen = set(parents)
    while parents:
        for analogue in _analogues(parents.popleft()):
            if analogue not in seen:
                seen.add(analogue)
                parents.append(analogue)
                yield analogue


def _analogues(smiles: str) -> Iterator[str]:
    molecule = Chem.MolFromSmiles(smiles)
    for reaction in _AROMATIC_HYDROGENS:
        for (product,) in reaction.RunReactants((molecule,)):
            Chem.SanitizeMol(product)
            if is_small(product):
                yield Chem.MolToSmiles(product)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print a library of ligands as JSON Lines.")
    parser.add_argument("--size", type=int, default=DEFAULT_SIZE, help="ligands (default 1,000)")
    for number, smiles in enumerate(islice(library(), parser.parse_args().size), start=1):
        print(json.dumps({"name": f"ligand{number:05}", "smiles": smiles}))
