"""The process that draws molecules for pages: SMILES in, pictures out, a line of JSON each.

SMILES come from strangers, and RDKit is C++. So this is a process of its own, with limits that it
sets itself. A molecule that exceeds them ends this process and nothing else; see `molecules`.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from typing import Final

from rdkit import Chem, rdBase
from rdkit.Chem.Draw import rdMolDraw2D

WIDTH: Final = 240
HEIGHT: Final = 160
MOST_ATOMS: Final = 150
#: Characters of a picture.
MOST_CHARS: Final = 100_000
#: Bytes of address space; RDKit itself takes some hundred megabytes.
_MOST_BYTES: Final = 2 << 30
#: Agents, and viewers who wait for a page, go first.
_NICENESS: Final = 15


def drawn(smiles: str) -> str | None:
    """Return a picture as SVG; None if this is not a molecule, or too large a one."""
    words = Chem.SmilesParserParams()
    # Only names, labels and coordinates come after the SMILES.
    words.allowCXSMILES = False  # type: ignore[assignment]  # its stub is wrong
    words.parseName = False  # type: ignore[assignment]  # the same
    molecule: Chem.Mol | None = Chem.MolFromSmiles(smiles, words)
    if molecule is None or not 0 < molecule.GetNumAtoms() <= MOST_ATOMS:
        return None
    picture = rdMolDraw2D.MolDraw2DSVG(WIDTH, HEIGHT)
    rdMolDraw2D.PrepareAndDrawMolecule(picture, molecule)
    picture.FinishDrawing()
    text: str = picture.GetDrawingText()
    return text if len(text) <= MOST_CHARS else None


def main() -> None:
    """Draw what standard input asks for until it ends; the first line out means ready."""
    os.nice(_NICENESS)
    for kind, most in (
        (resource.RLIMIT_AS, _MOST_BYTES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        resource.setrlimit(kind, (most, most))
    rdBase.DisableLog("rdApp.*")
    _say(None)
    for line in sys.stdin:
        _say(_drawn_or_none(json.loads(line)))


def _drawn_or_none(smiles: str) -> str | None:
    try:
        return drawn(smiles)
    except (ValueError, RuntimeError):  # RDKit raises these for some molecules
        return None


def _say(picture: str | None) -> None:
    sys.stdout.write(f"{json.dumps(picture)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
