"""Molecules and reactions of RDKit in pickles: with names, properties and exact coordinates.

RDKit leaves properties out of a pickle, and rounds coordinates, unless a setting of the whole
process says otherwise. That setting belongs to the user. But these objects also give their binary
form with all that is in them, which their constructor takes; so it stands in the place of the other
one.
"""

from __future__ import annotations

import sys
from typing import Any, Optional, Tuple

_BASES = (("rdkit.Chem.rdchem", "Mol"), ("rdkit.Chem.rdChemReactions", "ChemicalReaction"))


def reduced(value: Any, *, computed: bool = True) -> Optional[Tuple[Any, ...]]:
    """Return what a pickle has of a molecule or reaction; None for anything else.

    computed: with what RDKit has computed from the rest and keeps there.
    """
    rdchem = sys.modules.get("rdkit.Chem.rdchem")
    if rdchem is None or not any(
        issubclass(type(value), getattr(sys.modules.get(module), name, ()))
        for module, name in _BASES
    ):
        return None
    options = rdchem.PropertyPickleOptions
    flags = int(options.AllProps) | int(getattr(options, "CoordsAsDouble", 0))
    if not computed:
        flags &= ~int(options.ComputedProps)
    whole = value.ToBinary(flags)
    make, args, *rest = value.__reduce_ex__(4)
    if make is not type(value) or len(args) != 1 or type(args[0]) is not bytes:
        return type(value), (whole,)  # bindings of another kind
    if rest and isinstance(rest[0], dict):  # that of PropertyMol, which has the plain form twice
        rest[0] = {name: whole if value == args[0] else value for name, value in rest[0].items()}
    return (make, (whole,), *rest)
